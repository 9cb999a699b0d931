//! Private keys.

use super::PublicKey;
use crate::{CryptoError, KeyFileError};
use zeroize::Zeroizing;

/// The kinds of key that can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// `ssh-ed25519` (RFC 8709).
    Ed25519,
    /// `ecdsa-sha2-nistp256` (RFC 5656).
    EcdsaP256,
    /// `ecdsa-sha2-nistp384`.
    EcdsaP384,
    /// `ecdsa-sha2-nistp521`.
    EcdsaP521,
    /// `ssh-rsa`.
    Rsa,
}

/// A private key. Cheap to clone; wiped when the last clone is dropped. `Send + Sync`.
#[derive(Clone)]
pub struct PrivateKey {
    public: PublicKey,
}

impl PrivateKey {
    /// A fresh key. `bits` counts for RSA only (`None`: 3072; possible: 2048, 3072, 4096, 8192).
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] for other sizes.
    pub fn generate(_key_type: KeyType, _bits: Option<u32>) -> Result<Self, CryptoError> {
        Err(CryptoError::Unsupported { what: "generating keys" })
    }

    /// The public half.
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs `data` and returns the signature blob (`string` algorithm, `string` signature).
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] when `algorithm` is not one of the key's.
    pub fn sign(&self, _algorithm: &str, _data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        Err(CryptoError::Unsupported { what: "signing" })
    }

    /// Reads a private key file: OpenSSH's format, PKCS#8, PKCS#1 or SEC1 in PEM, plain or encrypted. Returns the
    /// comment too (empty where the format has none).
    ///
    /// # Errors
    /// [`KeyFileError::PassphraseNeeded`] when a passphrase is needed and none was given; an empty passphrase counts
    /// as one.
    pub fn parse(_file: &[u8], _passphrase: Option<&[u8]>) -> Result<(Self, String), KeyFileError> {
        Err(KeyFileError::InvalidFormat)
    }

    /// The public half of a private key file that may still be encrypted. Only OpenSSH's own format holds it in clear;
    /// for the others this works when they are not encrypted.
    ///
    /// # Errors
    /// As [`parse`](Self::parse) without a passphrase.
    pub fn parse_public(_file: &[u8]) -> Result<PublicKey, KeyFileError> {
        Err(KeyFileError::InvalidFormat)
    }

    /// The key in OpenSSH's file format, ending in a newline. With a passphrase: aes256-ctr and that many rounds of
    /// bcrypt (ssh-keygen's default is 24).
    ///
    /// # Errors
    /// [`CryptoError::Library`] when deriving the key fails.
    pub fn to_openssh(
        &self,
        _comment: &str,
        _encrypt: Option<(&[u8], u32)>,
    ) -> Result<Zeroizing<String>, CryptoError> {
        Err(CryptoError::Unsupported { what: "writing key files" })
    }
}
