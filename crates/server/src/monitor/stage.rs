//! The stages of a login, and the error for a request that does not belong to the current one.

/// What the client is expected to do next. What is not expected is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// One signature, for the first key exchange.
    KeyExchange,
    /// Attempts. `prompted`: answers to a prompt may come.
    Attempts { prompted: bool },
    /// Nothing before the connection has moved to the user session process.
    Accepted,
    /// Nothing.
    Over,
}

/// Why a request is refused. Our own processes send no such request: one that does has been taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unexpected {
    /// At another time it might have been.
    #[error("request at the wrong time")]
    Time,
    /// No hash has that length.
    #[error("signature over {0} bytes wanted")]
    HashLength(usize),
    /// No such key, or it makes no such signatures here.
    #[error("signature by another key or algorithm wanted")]
    HostKey,
    /// The name was another one before.
    #[error("user name changed")]
    User,
    /// Not the caller's fault: the rules for this user want no connection at all. It has been logged.
    #[error("administratively prohibited")]
    Prohibited,
    /// More signatures than any sensible limit on rekeying asks for.
    #[error("too many signatures of host keys wanted: {0} in reserve and {1} a second are allowed")]
    SigningRate(u32, u32),
    /// No such terminal, or another user's.
    #[error("another terminal wanted than this session may have")]
    Terminal,
}
