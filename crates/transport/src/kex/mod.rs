//! The key exchange machines. A state owns what it needs, takes a message by value of itself and gives the next.
//!
//! Nothing here sends: what is to be sent, told and done next comes back as a [`Progress`]. Two states wait for
//! somebody else's answer: the client's for a verdict on the host key, the server's for a signature.

mod client;
mod hash;
mod server;

use lh_crypto::{KexAlgorithm, KexError, Random, SharedSecret};

use crate::{Config, Event, Role, TransportError};

/// What both sides know when a key exchange starts: everything that enters the exchange hash first.
pub(crate) struct Exchange {
    pub(crate) kex: KexAlgorithm,
    /// Host key signature algorithm.
    pub(crate) host_key: String,
    pub(crate) client_ident: Vec<u8>,
    pub(crate) server_ident: Vec<u8>,
    pub(crate) client_init: Vec<u8>,
    pub(crate) server_init: Vec<u8>,
    /// First exchange of the connection.
    pub(crate) first: bool,
    /// Bits of group a client asks for in group exchange.
    pub(crate) group_bits: u32,
}

/// A finished exchange.
pub(crate) struct Finished {
    pub(crate) secret: SharedSecret,
    pub(crate) exchange_hash: Vec<u8>,
    /// Blob of the server's key.
    pub(crate) host_key: Vec<u8>,
    /// The server's signature over the exchange hash.
    pub(crate) signature: Vec<u8>,
}

/// Between the two KEXINITs and our NEWKEYS.
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

/// Where a step leads.
pub(crate) enum Next {
    State(Box<State>),
    Finished(Finished),
}

/// What comes of a step.
pub(crate) struct Progress {
    pub(crate) next: Next,
    /// A message to send at once.
    pub(crate) send: Option<Vec<u8>>,
    pub(crate) event: Option<Event>,
}

impl Progress {
    fn to(state: State) -> Self {
        Self { next: Next::State(Box::new(state)), send: None, event: None }
    }

    fn sending(mut self, message: Vec<u8>) -> Self {
        self.send = Some(message);
        self
    }

    fn telling(mut self, event: Event) -> Self {
        self.event = Some(event);
        self
    }
}

/// What comes of an answer from our own side: when it does not fit, the state goes on waiting.
pub(crate) type Answered = Result<Progress, (Box<State>, TransportError)>;

type Step = Result<Progress, TransportError>;

/// Starts after both KEXINITs. `accepted` is the host key this connection accepted before, if any.
pub(crate) fn start(exchange: Exchange, config: &Config, accepted: Option<Vec<u8>>) -> Step {
    match config.role {
        Role::Client => client::start(exchange, accepted),
        Role::Server => server::start(exchange, config),
    }
}

impl State {
    /// A message from 30 to 49.
    pub(crate) fn message(self, payload: &[u8], config: &Config, random: &mut dyn Random) -> Step {
        match self {
            Self::ClientReply(state) => state.message(payload),
            Self::ClientGexGroup(state) => state.message(payload),
            Self::ClientGexReply(state) => state.message(payload),
            Self::ServerInit(state) => state.message(payload),
            Self::ServerGexRequest(state) => state.message(payload, config, random),
            Self::ServerGexInit(state) => state.message(payload),
            // The transport hands nothing on while a state waits for an answer from our own side.
            Self::ClientVerdict(_) | Self::ServerSignature(_) => {
                Err(TransportError::KeyExchange("message while an answer is awaited"))
            }
        }
    }

    /// True when an answer from our own side must come before anything else.
    pub(crate) const fn waits_for_answer(&self) -> bool {
        matches!(self, Self::ClientVerdict(_) | Self::ServerSignature(_))
    }

    /// Client: this key was accepted.
    pub(crate) fn host_key_accepted(self: Box<Self>, blob: &[u8]) -> Answered {
        match *self {
            Self::ClientVerdict(state) if state.is_about(blob) => Ok(state.accepted()),
            state @ Self::ClientVerdict(_) => Err((
                Box::new(state),
                TransportError::Caller("another host key was accepted than the one asked about"),
            )),
            state => Err((Box::new(state), TransportError::Caller("no host key waits to be accepted"))),
        }
    }

    /// Server: the exchange hash was signed.
    pub(crate) fn signed(self: Box<Self>, signature: &[u8]) -> Answered {
        match *self {
            Self::ServerSignature(state) => Ok(state.signed(signature)),
            state => Err((Box::new(state), TransportError::Caller("no exchange hash waits to be signed"))),
        }
    }
}

/// What the crypto library has to say about a peer's values, as an error of the connection.
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
