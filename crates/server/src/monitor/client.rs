//! The client's connection, and the data that its signatures must cover.

use std::net::SocketAddr;
use std::time::Instant;

use lh_auth::KeyRequest;
use lh_auth::server::PublicKeyAttempt;
use lh_config::ConnectionFacts;
use lh_config::token::Tokens;
use lh_sys::users::User;

use crate::account::Origin;
use crate::hosts::endpoints;
use crate::log::Log;
use crate::user_tokens::user_tokens;

/// The client that a monitor serves.
pub(super) struct Client {
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    /// The client's host name, as `UseDNS` found it.
    pub(super) host_name: Option<String>,
    /// The end of LoginGraceTime.
    pub(super) deadline: Option<Instant>,
    /// The first exchange hash that a host key signed: users' signatures must cover it.
    pub(super) session_id: Vec<u8>,
    pub(super) host_key: Vec<u8>,
    pub(super) log: Log,
}

impl Client {
    pub(super) const fn new(peer: SocketAddr, local: SocketAddr, log: Log) -> Self {
        Self {
            peer,
            local,
            host_name: None,
            deadline: None,
            session_id: Vec::new(),
            host_key: Vec::new(),
            log,
        }
    }

    /// Returns the facts for `Match` blocks before a user is known.
    pub(super) fn facts(&self) -> ConnectionFacts {
        crate::facts::of_connection(self.peer, self.local, self.host_name.as_deref())
    }

    pub(super) fn origin(&self) -> Origin<'_> {
        Origin { address: self.peer.ip(), name: self.host_name.as_deref() }
    }

    /// Returns addresses and ports of both ends, in the form of `%C` and PAM.
    pub(super) fn endpoints(&self) -> String {
        endpoints(self.peer, self.local)
    }

    /// Returns the tokens for commands about a user: `%C` and `%D` besides those of [`user_tokens`].
    pub(super) fn tokens(&self, user: &User) -> Tokens {
        user_tokens(user).with('C', self.endpoints()).with('D', "")
    }

    /// Returns the data that the signature of a user's key must cover: this session, this user, this request.
    /// The monitor builds it itself, so that no signature over other data counts.
    pub(super) fn signed_data(&self, user: &str, attempt: &PublicKeyAttempt) -> Vec<u8> {
        let request = KeyRequest {
            algorithm: &attempt.algorithm,
            key: &attempt.key,
            host_key: attempt.hostbound.then_some(&self.host_key[..]),
        };
        lh_auth::signed_data(&self.session_id, user.as_bytes(), &request)
    }
}
