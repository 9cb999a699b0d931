//! Private key files, including those of security keys.

use lh_agent::{AddedKey, SecurityKey};
use lh_crypto::{CryptoError, Encryption, KeyFileError, PrivateKey, PublicKey};
use lh_wire::Reader;
use zeroize::Zeroizing;

/// Content of a private key file.
#[derive(Clone)]
pub enum FileKey {
    /// A key that can sign by itself.
    Plain(PrivateKey),
    /// A reference to a key in a security key.
    Security(SecurityKey),
}

impl FileKey {
    /// Parses a private key file; see [`PrivateKey::parse`].
    ///
    /// # Errors
    /// Those of [`PrivateKey::parse`].
    pub fn parse(file: &[u8], passphrase: Option<&[u8]>) -> Result<(Self, String), KeyFileError> {
        match PrivateKey::parse(file, passphrase) {
            Ok((key, comment)) => Ok((Self::Plain(key), comment)),
            Err(unsupported @ KeyFileError::Unsupported { .. }) => {
                let section =
                    PrivateKey::private_section(file, passphrase).map_err(|_| unsupported.clone())?;
                let mut reader = Reader::new(&section);
                let key = SecurityKey::read(&mut reader).map_err(|_| unsupported)?;
                let comment = reader.string().map_err(|_| KeyFileError::InvalidFormat)?;
                Ok((Self::Security(key), String::from_utf8_lossy(comment).into_owned()))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the public key.
    pub const fn public(&self) -> &PublicKey {
        match self {
            Self::Plain(key) => key.public(),
            Self::Security(key) => &key.public,
        }
    }

    /// Returns the key in the form of an agent's request.
    pub fn added(&self) -> AddedKey {
        match self {
            Self::Plain(key) => AddedKey::Plain(key.clone()),
            Self::Security(key) => AddedKey::Security(key.clone()),
        }
    }

    /// Returns type and fields of the private key, as in files and in requests to agents.
    pub fn to_wire(&self) -> Zeroizing<Vec<u8>> {
        match self {
            Self::Plain(key) => key.to_wire(),
            Self::Security(key) => {
                let mut fields = Zeroizing::new(Vec::with_capacity(1024 + key.handle.len()));
                key.write(&mut fields);
                fields
            }
        }
    }

    /// Returns the key with a certificate, in the form of an agent's request; `None` when the certificate is
    /// for another key.
    pub fn certified(&self, certificate: PublicKey) -> Option<AddedKey> {
        match self {
            Self::Plain(key) => AddedKey::new(key.clone(), Some(certificate)).ok(),
            Self::Security(key) => key.with_certificate(certificate).ok().map(AddedKey::Security),
        }
    }

    /// Returns the key in OpenSSH's file format; see [`PrivateKey::to_openssh_with`].
    ///
    /// # Errors
    /// Those of [`PrivateKey::to_openssh_with`].
    pub fn to_openssh_with(
        &self,
        comment: &str,
        encrypt: Option<&Encryption<'_>>,
    ) -> Result<Zeroizing<String>, CryptoError> {
        match self {
            Self::Plain(key) => key.to_openssh_with(comment, encrypt),
            Self::Security(key) => PrivateKey::seal_section(&key.public, &self.to_wire(), comment, encrypt),
        }
    }
}
