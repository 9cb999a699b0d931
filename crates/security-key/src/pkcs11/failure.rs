//! Errors of tokens.

use std::io;

/// Error of a token, its library or the helper that has loaded it.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The library or the token failed; the helper's text explains why.
    #[error("{0}")]
    Token(String),
    /// The token needs a PIN, and none can be obtained.
    #[error("PIN required")]
    NoPin,
    /// The library offers no keys.
    #[error("no keys")]
    NoKeys,
    /// The token has signed something else, with another key, or in another form.
    #[error("the token's signature is invalid")]
    InvalidSignature,
    /// The helper's answer is malformed.
    #[error("invalid format")]
    Invalid,
    /// The helper cannot be started, or communication with it failed.
    #[error("helper \"{path}\": {source}")]
    Helper {
        /// The helper's path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The helper ended; its message on standard error explains why.
    #[error("the PKCS#11 helper has ended")]
    Died,
}
