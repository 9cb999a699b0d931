//! What can go wrong, one small error per operation.

/// A key or parameter could not be set up. By our caller's fault, or something the library does not offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// A key, IV or buffer does not have the length its algorithm needs.
    #[error("{what} has the wrong length")]
    WrongLength {
        /// What has the wrong length.
        what: &'static str,
    },
    /// This combination is not offered.
    #[error("{what} is not supported")]
    Unsupported {
        /// What is not supported.
        what: &'static str,
    },
    /// The library refused; it does not say why.
    #[error("the crypto library failed to {what}")]
    Library {
        /// What was being done.
        what: &'static str,
    },
}

/// A received packet is not authentic (RFC 4253 section 11.1, `SSH_DISCONNECT_MAC_ERROR`).
///
/// One value for every cause, so that a peer learns nothing about which byte was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message authentication code incorrect")]
pub struct OpenError;

/// A key exchange cannot go on (`SSH_DISCONNECT_KEY_EXCHANGE_FAILED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KexError {
    /// The peer's public value has the wrong size, is not on the curve, or would make the secret guessable.
    #[error("invalid key exchange value from peer: {why}")]
    BadPublicValue {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The group a server proposed is too small, too large, or not a group at all (RFC 4419 section 3).
    #[error("invalid Diffie-Hellman group: {why}")]
    BadGroup {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The call does not belong to this algorithm: a mistake of our own caller.
    #[error("{what} is not possible with this key exchange")]
    WrongFamily {
        /// What was asked for.
        what: &'static str,
    },
    /// The library refused; it does not say why.
    #[error("the crypto library failed to {what}")]
    Library {
        /// What was being done.
        what: &'static str,
    },
}

/// A signature was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The signature does not belong to this key and data.
    #[error("incorrect signature")]
    BadSignature,
    /// The signature blob cannot be read, or names another algorithm than was agreed on.
    #[error("malformed signature: {why}")]
    Malformed {
        /// What is wrong with it.
        why: &'static str,
    },
    /// This kind of key cannot make that kind of signature, or this build cannot check it.
    #[error("signature algorithm does not fit the key")]
    WrongAlgorithm,
}

/// A key file could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// The private key is encrypted and no passphrase was given.
    #[error("incorrect passphrase supplied to decrypt private key")]
    PassphraseNeeded,
    /// The passphrase does not open the key.
    #[error("incorrect passphrase supplied to decrypt private key")]
    WrongPassphrase,
    /// The file is not a private key in any format we know. OpenSSH's words.
    #[error("invalid format")]
    InvalidFormat,
    /// A private key whose cipher, KDF or type is not supported.
    #[error("unsupported key: {what}")]
    Unsupported {
        /// What is not supported.
        what: String,
    },
    /// The numbers in the file do not make a key.
    #[error("invalid key: {why}")]
    InvalidKey {
        /// What is wrong with them.
        why: &'static str,
    },
}
