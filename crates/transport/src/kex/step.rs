//! Inputs and results of the steps of both sides.

use lh_crypto::{KexAlgorithm, KexError, SharedSecret};

use crate::{Event, TransportError};

/// State that both sides share when a key exchange starts: the first inputs of the exchange hash.
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

/// Outcome of a step; `S` is the state of one side, or of both.
pub(crate) enum Next<S> {
    State(Box<S>),
    Finished(Finished),
}

/// Result of a step.
pub(crate) struct Progress<S> {
    pub(crate) next: Next<S>,
    /// A message to send immediately.
    pub(crate) send: Option<Vec<u8>>,
    pub(crate) event: Option<Event>,
}

impl<S> Progress<S> {
    pub(super) fn to(state: S) -> Self {
        Self { next: Next::State(Box::new(state)), send: None, event: None }
    }

    pub(super) fn with_message(mut self, message: Vec<u8>) -> Self {
        self.send = Some(message);
        self
    }

    pub(super) fn with_event(mut self, event: Event) -> Self {
        self.event = Some(event);
        self
    }

    /// Wraps the next state in the state type of both sides.
    pub(super) fn map<T>(self, wrap: impl FnOnce(S) -> T) -> Progress<T> {
        let next = match self.next {
            Next::State(state) => Next::State(Box::new(wrap(*state))),
            Next::Finished(finished) => Next::Finished(finished),
        };
        Progress { next, send: self.send, event: self.event }
    }
}

/// Result of handling one message.
pub(super) type Step<S> = Result<Progress<S>, TransportError>;

/// Converts the crypto library's error about a peer's values into a transport error.
pub(super) fn kex_error(error: KexError) -> TransportError {
    TransportError::KeyExchange(match error {
        KexError::BadPublicValue { why } | KexError::BadGroup { why } => why,
        KexError::WrongFamily { what } | KexError::Library { what } => what,
        KexError::NotBuilt => "a method that FIPS builds lack",
    })
}

/// Converts a decoder's error into a transport error; `message` names what was decoded.
pub(super) fn malformed(message: &'static str) -> impl Fn(lh_wire::WireError) -> TransportError {
    move |source| match source {
        lh_wire::WireError::WrongMessage { got, .. } => {
            TransportError::Unexpected { number: got, when: "during key exchange" }
        }
        source => TransportError::Malformed { message, source },
    }
}
