//! The key exchange state machines. A state owns its data, consumes itself with each message and returns the
//! next state.
//!
//! This module sends nothing: each step returns a [`Progress`] with the message to send, the event to report
//! and the next state. Two states wait for the caller's answer: the client's for the verdict on the host key,
//! the server's for the signature.

mod client;
mod hash;
mod server;

use lh_crypto::{KexAlgorithm, KexError, Random, SharedSecret};

use crate::{Config, Event, Role, TransportError};

/// What both sides know when a key exchange starts: the first inputs of the exchange hash.
pub(crate) struct Exchange {
    pub(crate) kex: KexAlgorithm,
    /// Host key signature algorithm.
    pub(crate) host_key: String,
    pub(crate) client_ident: Vec<u8>,
    pub(crate) server_ident: Vec<u8>,
    pub(crate) client_init: Vec<u8>,
    pub(crate) server_init: Vec<u8>,
    /// True in the first exchange of the connection.
    pub(crate) first: bool,
    /// Group size that a client requests in group exchange, bits.
    pub(crate) group_bits: u32,
}

/// Result of a completed exchange.
pub(crate) struct Finished {
    pub(crate) secret: SharedSecret,
    pub(crate) exchange_hash: Vec<u8>,
    /// The server's public key blob.
    pub(crate) host_key: Vec<u8>,
    /// The server's signature over the exchange hash.
    pub(crate) signature: Vec<u8>,
}

/// State between the two KEXINITs and our NEWKEYS.
pub(crate) enum State {
    ClientReply(client::ExpectReply),
    ClientGexGroup(client::ExpectGexGroup),
    ClientGexReply(client::ExpectGexReply),
    ClientVerdict(client::ExpectVerdict),
    ServerInit(server::ExpectInit),
    ServerGexRequest(server::ExpectGexRequest),
    ServerGexInit(server::ExpectGexInit),
    ServerSignature(server::ExpectSignature),
}

/// Outcome of a step.
pub(crate) enum Next {
    State(Box<State>),
    Finished(Finished),
}

/// Result of a step.
pub(crate) struct Progress {
    pub(crate) next: Next,
    /// A message to send immediately.
    pub(crate) send: Option<Vec<u8>>,
    pub(crate) event: Option<Event>,
}

impl Progress {
    fn to(state: State) -> Self {
        Self { next: Next::State(Box::new(state)), send: None, event: None }
    }

    fn with_message(mut self, message: Vec<u8>) -> Self {
        self.send = Some(message);
        self
    }

    fn with_event(mut self, event: Event) -> Self {
        self.event = Some(event);
        self
    }
}

/// Result of an answer from our own side. If the answer does not fit, the state is returned and keeps
/// waiting.
pub(crate) type Answered = Result<Progress, (Box<State>, TransportError)>;

type Step = Result<Progress, TransportError>;

/// Starts the exchange after both KEXINITs. `accepted` is the host key that this connection accepted before,
/// if any.
pub(crate) fn start(exchange: Exchange, config: &Config, accepted: Option<Vec<u8>>) -> Step {
    match config.role {
        Role::Client => client::start(exchange, accepted),
        Role::Server => server::start(exchange, config),
    }
}

impl State {
    /// Handles a message with a number from 30 to 49.
    pub(crate) fn message(self, payload: &[u8], config: &Config, random: &mut dyn Random) -> Step {
        match self {
            Self::ClientReply(state) => state.message(payload),
            Self::ClientGexGroup(state) => state.message(payload),
            Self::ClientGexReply(state) => state.message(payload),
            Self::ServerInit(state) => state.message(payload),
            Self::ServerGexRequest(state) => state.message(payload, config, random),
            Self::ServerGexInit(state) => state.message(payload),
            // The transport delivers no messages while a state waits for an answer from our own side.
            Self::ClientVerdict(_) | Self::ServerSignature(_) => {
                Err(TransportError::KeyExchange("message while an answer is awaited"))
            }
        }
    }

    /// Returns true when an answer from our own side must come first.
    pub(crate) const fn waits_for_answer(&self) -> bool {
        matches!(self, Self::ClientVerdict(_) | Self::ServerSignature(_))
    }

    /// Client: the caller accepted this key.
    pub(crate) fn host_key_accepted(self: Box<Self>, blob: &[u8]) -> Answered {
        match *self {
            Self::ClientVerdict(state) if state.is_about(blob) => Ok(state.accepted()),
            state @ Self::ClientVerdict(_) => Err((
                Box::new(state),
                TransportError::Caller("the accepted host key is not the one that was reported"),
            )),
            state => Err((Box::new(state), TransportError::Caller("no host key is waiting to be accepted"))),
        }
    }

    /// Server: the exchange hash is signed.
    pub(crate) fn signed(self: Box<Self>, signature: &[u8]) -> Answered {
        match *self {
            Self::ServerSignature(state) => Ok(state.signed(signature)),
            state => {
                Err((Box::new(state), TransportError::Caller("no exchange hash is waiting to be signed")))
            }
        }
    }
}

/// Converts the crypto library's error about a peer's values into a transport error.
fn kex_error(error: KexError) -> TransportError {
    TransportError::KeyExchange(match error {
        KexError::BadPublicValue { why } | KexError::BadGroup { why } => why,
        KexError::WrongFamily { what } | KexError::Library { what } => what,
    })
}

fn malformed(message: &'static str) -> impl Fn(lh_wire::WireError) -> TransportError {
    move |source| match source {
        lh_wire::WireError::WrongMessage { got, .. } => {
            TransportError::Unexpected { number: got, when: "during key exchange" }
        }
        source => TransportError::Malformed { message, source },
    }
}
