//! The key exchange state machines. A state owns its data, consumes itself with each message and returns the
//! next state.
//!
//! This module sends nothing: each step returns a [`Progress`] with the message to send, the event to report
//! and the next state. Two states wait for the caller's answer: the client's for the verdict on the host key,
//! the server's for the signature.

mod client;
mod hash;
mod server;
mod step;

use lh_crypto::Random;

use self::step::Step;
pub(crate) use self::step::{Exchange, Finished, Next, Progress};
use crate::{Config, Role, TransportError};

/// State between the two KEXINITs and our NEWKEYS.
pub(crate) enum State {
    Client(client::State),
    Server(server::State),
}

/// Result of an answer from our own side. If the answer does not fit, the state is returned and keeps
/// waiting.
pub(crate) type Answered = Result<Progress<State>, (Box<State>, TransportError)>;

/// Starts the exchange after both KEXINITs. `accepted` is the host key that this connection accepted before,
/// if any.
pub(crate) fn start(exchange: Exchange, config: &Config, accepted: Option<Vec<u8>>) -> Step<State> {
    Ok(match config.role {
        Role::Client => client::start(exchange, accepted)?.map(State::Client),
        Role::Server => server::start(exchange, config)?.map(State::Server),
    })
}

impl State {
    /// Handles a message with a number from 30 to 49.
    pub(crate) fn message(self, payload: &[u8], config: &Config, random: &mut dyn Random) -> Step<Self> {
        Ok(match self {
            Self::Client(state) => state.message(payload)?.map(Self::Client),
            Self::Server(state) => state.message(payload, config, random)?.map(Self::Server),
        })
    }

    /// Returns true when an answer from our own side must come first.
    pub(crate) const fn waits_for_answer(&self) -> bool {
        matches!(self, Self::Client(client::State::Verdict(_)) | Self::Server(server::State::Signature(_)))
    }

    /// Client: the caller accepted this key.
    pub(crate) fn host_key_accepted(self: Box<Self>, blob: &[u8]) -> Answered {
        match *self {
            Self::Client(client::State::Verdict(state)) if state.is_about(blob) => {
                Ok(state.accepted().map(Self::Client))
            }
            state @ Self::Client(client::State::Verdict(_)) => Err((
                Box::new(state),
                TransportError::Caller("the accepted host key is not the one that was reported"),
            )),
            state => Err((Box::new(state), TransportError::Caller("no host key is waiting to be accepted"))),
        }
    }

    /// Server: the exchange hash is signed.
    pub(crate) fn signed(self: Box<Self>, signature: &[u8]) -> Answered {
        match *self {
            Self::Server(server::State::Signature(state)) => Ok(state.signed(signature).map(Self::Server)),
            state => {
                Err((Box::new(state), TransportError::Caller("no exchange hash is waiting to be signed")))
            }
        }
    }
}
