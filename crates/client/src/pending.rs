//! The login on a link whose host key has been checked.

use std::net::SocketAddr;

use lh_auth::{FIRST_FLIGHT, FirstFlight};
use lh_driver::Link;

use crate::error::ClientError;
use crate::failure::{PeerName, link_failed};
use crate::farewell::{DISCONNECT_TIMEOUT, Watch};
use crate::handshake::LinkPackets;
use crate::log::Log;
use crate::login::{Needed, log_in};
use crate::login_setup::{login_config, session_proof};
use crate::options::Options;
use crate::resumable::keep_messages;
use crate::resume::attempt::Connect;
use crate::unencrypted;

/// The prepared login of a link: its options, and facts about the host.
pub(crate) struct Pending {
    /// Includes the port from `FallbackPort`, if the connection uses it.
    pub(crate) options: Options,
    pub(crate) peer: PeerName,
    /// Peer of the TCP connection; `None` behind a proxy or jump host.
    pub(crate) address: Option<SocketAddr>,
    /// The host key was accepted although it is not trusted.
    pub(crate) untrusted: bool,
    /// The server's `first-flight@longhaul` promise, if it may be used.
    pub(crate) flight: Option<FirstFlight>,
    /// Whether the logins at the jump hosts have needed the user.
    pub(crate) needed: Needed,
    /// The client has offered to resume the session.
    pub(crate) resumes: bool,
    /// Makes another link, to resume the session.
    pub(crate) connect_again: Connect,
}

impl Pending {
    /// Logs in, then switches encryption as `NoneSwitch` asks. Returns whether this login and those at the
    /// jump hosts have needed the user, and what watches for signals if the server keeps the session.
    pub(crate) fn log_in(
        &self,
        link: &mut Link,
        log: &mut Log<'_>,
    ) -> Result<(Needed, Option<Watch>), ClientError> {
        let Self { options, peer, address, untrusted, flight, resumes, needed, connect_again: _ } = self;
        let config = &options.config;
        let mut login = login_config(options, *address, *untrusted)?;
        login.identities.session = session_proof(link);
        log.debug(|| format!("Authenticating to {}:{} as '{}'", login.host, config.port.0, login.user));
        let host_bound =
            !matches!(*config.pubkey_authentication, lh_config::enums::ClientPubkeyAuthentication::Unbound);
        let session_id = link.session_id().unwrap_or_default();
        let machine = lh_auth::client::Client::new(&login.user, session_id, None);
        if *resumes {
            keep_messages(link);
        }
        let host_key = link.host_key().unwrap_or_default().to_vec();
        let packets = &mut LinkPackets {
            link,
            peer,
            host_bound,
            flight: *flight,
            early: Default::default(),
            watch: None,
            silence: config
                .server_alive_interval
                .duration()
                .and_then(|interval| interval.checked_mul(*config.server_alive_count_max))
                .filter(|silence| !silence.is_zero()),
        };
        let result = match &options.ticket {
            Some(ticket) => {
                crate::ticket::join(packets, machine, ticket, &host_key, log).map(|()| Needed::Nobody)
            }
            None => log_in(packets, machine, &login, log),
        };
        let watch = packets.watch.take();
        let own = match result {
            Ok(own) => own,
            Err(error) => {
                if matches!(error, ClientError::Denied(_)) {
                    let reason = lh_wire::msg::disconnect::NO_MORE_AUTH_METHODS_AVAILABLE;
                    link.disconnect(reason, "No more authentication methods available", DISCONNECT_TIMEOUT);
                }
                return Err(error);
            }
        };
        link.set_authenticated();
        // The server's offer may have arrived late; no message of the session was sent before it.
        if *resumes {
            keep_messages(link);
        }
        if let Some(wanted) = unencrypted::wanted(config, options.purpose, log) {
            unencrypted::switch(link, wanted, peer, config.connect_timeout.duration(), log)?;
        }
        link.release_early();
        Ok((own.and(*needed), watch))
    }
}

/// Returns the server's promise about requests sent without waiting (`first-flight@longhaul`). `None` if
/// other steps must come first on this connection, or if the host is untrusted: it must not learn the
/// requests before the login.
///
/// # Errors
/// The connection has ended.
pub(crate) fn first_flight(
    link: &mut Link,
    options: &Options,
    untrusted: bool,
    peer: &PeerName,
) -> Result<Option<FirstFlight>, ClientError> {
    if untrusted || options.ticket.is_some() || *options.config.none_switch {
        return Ok(None);
    }
    // EXT_INFO follows directly after NEWKEYS, mostly in the same segment.
    let mut later = Vec::new();
    while let Some(event) = link.event_already_read().map_err(|error| link_failed(&error, peer))? {
        later.push(event);
    }
    link.put_back_events(later);
    Ok(link.peer_extension(FIRST_FLIGHT).and_then(FirstFlight::decode))
}
