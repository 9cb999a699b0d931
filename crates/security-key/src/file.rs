//! Key files that hold a private key, or what stands in for one that is in hardware.

use lh_agent::{AddedKey, SecurityKey};
use lh_crypto::{CryptoError, Encryption, KeyFileError, PrivateKey, PublicKey};
use lh_wire::Reader;
use zeroize::Zeroizing;

/// What a private key file holds.
#[derive(Clone)]
pub enum FileKey {
    /// A key that signs by itself.
    Plain(PrivateKey),
    /// What finds a key in a security key.
    Security(SecurityKey),
}

impl FileKey {
    /// Reads a private key file; see [`PrivateKey::parse`].
    ///
    /// # Errors
    /// As there.
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

    /// The public half.
    pub const fn public(&self) -> &PublicKey {
        match self {
            Self::Plain(key) => key.public(),
            Self::Security(key) => &key.public,
        }
    }

    /// For an agent.
    pub fn added(&self) -> AddedKey {
        match self {
            Self::Plain(key) => AddedKey::Plain(key.clone()),
            Self::Security(key) => AddedKey::Security(key.clone()),
        }
    }

    /// For an agent, under a certificate; `None` when the certificate is another key's.
    pub fn certified(&self, certificate: PublicKey) -> Option<AddedKey> {
        match self {
            Self::Plain(key) => AddedKey::new(key.clone(), Some(certificate)).ok(),
            Self::Security(key) => key.with_certificate(certificate).ok().map(AddedKey::Security),
        }
    }

    /// The key in OpenSSH's file format; see [`PrivateKey::to_openssh_with`].
    ///
    /// # Errors
    /// As there.
    pub fn to_openssh_with(
        &self,
        comment: &str,
        encrypt: Option<&Encryption<'_>>,
    ) -> Result<Zeroizing<String>, CryptoError> {
        match self {
            Self::Plain(key) => key.to_openssh_with(comment, encrypt),
            Self::Security(key) => {
                let mut fields = Zeroizing::new(Vec::with_capacity(1024 + key.handle.len()));
                key.write(&mut fields);
                PrivateKey::seal_section(&key.public, &fields, comment, encrypt)
            }
        }
    }
}
