//! Errors of the helper, and those that it reports to its caller.

use std::io;

use cryptoki::error::{Error, RvError};
use lh_cli::helper::MemoryUnprotected;
use lh_wire::WireError;

/// An end of the program without a reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelperError {
    #[error(transparent)]
    Memory(#[from] MemoryUnprotected),
    #[error(transparent)]
    Channels(io::Error),
    #[error("reading a request: {0}")]
    Read(io::Error),
    /// The caller's request has another form.
    #[error("a request: {0}")]
    Request(WireError),
    #[error("writing a reply: {0}")]
    Write(io::Error),
}

/// A request that fails. The text is for the caller.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// The caller signs before it opens a library.
    #[error("no library is loaded")]
    NotLoaded,
    /// A bare name, which would be searched for in the system's library directories.
    #[error("provider \"{0}\" is not a path")]
    NotAPath(String),
    #[error("dlopen {provider} failed: {why}")]
    Load { provider: String, why: String },
    #[error("provider {provider}: {source}")]
    Library { provider: String, source: Error },
    #[error("provider {0} returned no slots")]
    NoSlots(String),
    #[error("PKCS#11 login failed: {}", login_words(.0))]
    Login(Error),
    #[error("the key is not on a token")]
    NoToken,
    /// The token has been changed since its keys were listed.
    #[error("the key is gone")]
    KeyGone,
    #[error("cannot find private key")]
    NoPrivateKey,
    /// The caller asks for an algorithm of another key type.
    #[error("signature algorithm {0} is not of this key")]
    OtherAlgorithm(String),
    #[error("signature algorithm {0} is not supported with tokens")]
    UnsupportedAlgorithm(String),
    #[error("the token wants the PIN at each use of this key")]
    PinAtEachUse,
    #[error("PKCS#11 signature failed: {0}")]
    Signature(Error),
    /// The token's signature has another form.
    #[error("the token's signature is invalid")]
    InvalidSignature,
}

/// The words for a refused login; those for a wrong PIN are the ones that people search for.
fn login_words(error: &Error) -> String {
    match error {
        Error::Pkcs11(RvError::PinIncorrect, _) => "PIN incorrect".to_owned(),
        Error::Pkcs11(RvError::PinLocked, _) => "PIN locked".to_owned(),
        Error::Pkcs11(RvError::PinLenRange, _) => "PIN length out of range".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cryptoki::context::Function;

    #[test]
    fn refused_logins_name_what_is_wrong_with_the_pin() {
        let refused = |why| TokenError::Login(Error::Pkcs11(why, Function::Login)).to_string();
        assert_eq!(refused(RvError::PinIncorrect), "PKCS#11 login failed: PIN incorrect");
        assert_eq!(refused(RvError::PinLocked), "PKCS#11 login failed: PIN locked");
        assert_eq!(refused(RvError::PinLenRange), "PKCS#11 login failed: PIN length out of range");
    }
}
