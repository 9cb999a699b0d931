//! The stages of a login, and the error for a request that does not belong to the current one.

/// The requests that are expected next. All others are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// One signature for the first key exchange.
    KeyExchange,
    /// Login attempts. `prompted`: answers to a prompt may come.
    Attempts { prompted: bool },
    /// Only the hand-over of the connection to the user session process.
    Accepted,
    /// No request about a login.
    Over,
}

/// Why a request is refused. Our own processes never send such a request, so an attacker controls the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unexpected {
    /// The request is not expected at this stage.
    #[error("request at the wrong time")]
    Time,
    /// No hash has this length.
    #[error("signature over {0} bytes wanted")]
    HashLength(usize),
    /// There is no such host key, or it does not sign with this algorithm.
    #[error("signature by another key or algorithm wanted")]
    HostKey,
    /// The user name differs from that of the first attempt.
    #[error("user name changed")]
    User,
    /// Not the sender's fault: the rules for this user prohibit the connection. The reason has been logged.
    #[error("administratively prohibited")]
    Prohibited,
    /// More signatures than any sensible limit on rekeying needs.
    #[error("too many signatures of host keys wanted: {0} in reserve and {1} a second are allowed")]
    SigningRate(u32, u32),
    /// There is no such terminal, or it is another user's.
    #[error("another terminal wanted than this session may have")]
    Terminal,
}
