//! Errors of this crate, one small type per operation.

/// A key or parameter could not be set up: a caller's mistake, or a case that the library does not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// A key, IV or buffer does not have the length that its algorithm requires.
    #[error("{what} has the wrong length")]
    WrongLength {
        /// Name of the value.
        what: &'static str,
    },
    /// The combination is not supported.
    #[error("{what} is not supported")]
    Unsupported {
        /// Name of the combination.
        what: &'static str,
    },
    /// The library failed; it does not report the cause.
    #[error("the crypto library failed to {what}")]
    Library {
        /// The failed operation.
        what: &'static str,
    },
}

/// A received packet is not authentic (RFC 4253 section 11.1, `SSH_DISCONNECT_MAC_ERROR`).
///
/// All causes have one value, so that a peer cannot learn which byte was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("message authentication code incorrect")]
pub struct OpenError;

/// A key exchange cannot continue (`SSH_DISCONNECT_KEY_EXCHANGE_FAILED`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KexError {
    /// The peer's public value has the wrong size, is not on the curve, or would make the secret guessable.
    #[error("invalid key exchange value from peer: {why}")]
    BadPublicValue {
        /// What is wrong with the value.
        why: &'static str,
    },
    /// The group that a server proposed is too small, too large, or not a group at all (RFC 4419 section 3).
    #[error("invalid Diffie-Hellman group: {why}")]
    BadGroup {
        /// What is wrong with the group.
        why: &'static str,
    },
    /// This build does not contain the method.
    #[error("this key exchange is not supported in a FIPS build")]
    NotBuilt,
    /// The call does not fit this algorithm: a caller's mistake.
    #[error("{what} is not possible with this key exchange")]
    WrongFamily {
        /// The requested operation.
        what: &'static str,
    },
    /// The library failed; it does not report the cause.
    #[error("the crypto library failed to {what}")]
    Library {
        /// The failed operation.
        what: &'static str,
    },
}

/// A signature was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The signature does not match this key and data.
    #[error("incorrect signature")]
    BadSignature,
    /// The signature blob cannot be decoded, or names another algorithm than was negotiated.
    #[error("malformed signature: {why}")]
    Malformed {
        /// What is wrong with the blob.
        why: &'static str,
    },
    /// This key type does not support the signature algorithm, or this build cannot verify it.
    #[error("signature algorithm does not match the key")]
    WrongAlgorithm,
}

/// A key file could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// The private key is encrypted and no passphrase was given.
    #[error("incorrect passphrase supplied to decrypt private key")]
    PassphraseNeeded,
    /// The passphrase does not decrypt the key.
    #[error("incorrect passphrase supplied to decrypt private key")]
    WrongPassphrase,
    /// The file is not a private key in a supported format. OpenSSH's words.
    #[error("invalid format")]
    InvalidFormat,
    /// The private key's cipher, KDF or type is not supported.
    #[error("unsupported key: {what}")]
    Unsupported {
        /// Name of the feature.
        what: String,
    },
    /// The numbers in the file do not form a key.
    #[error("invalid key: {why}")]
    InvalidKey {
        /// What is wrong with the numbers.
        why: &'static str,
    },
}
