//! Reading and writing of private key files in all formats.

use super::openssh_format::{self, Encryption};
use super::pem_write::{self, PemFormat};
use super::private::PrivateKey;
use super::{PublicKey, pem};
use crate::{CryptoError, KeyFileError};
use zeroize::Zeroizing;

/// Largest file that is parsed, bytes: OpenSSH's limit.
const MAX_FILE: usize = 1024 * 1024;

impl PrivateKey {
    /// Parses a private key file: OpenSSH's format, PKCS#8, PKCS#1 or SEC1 in PEM, plain or encrypted. Also
    /// returns the comment (empty if the format has none).
    ///
    /// # Errors
    /// [`KeyFileError::PassphraseNeeded`] when a passphrase is needed and none was passed; an empty one
    /// counts as passed.
    pub fn parse(file: &[u8], passphrase: Option<&[u8]>) -> Result<(Self, String), KeyFileError> {
        let file = Self::text_of(file)?;
        let block = pem::Block::find(file)?;
        if block.label == openssh_format::LABEL {
            openssh_format::parse(&block.decode()?, passphrase)
        } else {
            Ok((pem::parse(&block, passphrase)?, String::new()))
        }
    }

    /// Returns the public key of a private key file that may be encrypted. Only OpenSSH's own format stores
    /// it unencrypted; for the others this fails when they are encrypted.
    ///
    /// # Errors
    /// Like [`parse`](Self::parse) without a passphrase.
    pub fn parse_public(file: &[u8]) -> Result<PublicKey, KeyFileError> {
        let file = Self::text_of(file)?;
        let block = pem::Block::find(file)?;
        if block.label == openssh_format::LABEL {
            openssh_format::parse_public(&block.decode()?)
        } else {
            pem::parse(&block, None).map(|key| key.public().clone())
        }
    }

    /// Returns the decrypted private section of a file in OpenSSH's format: type and fields of the key, then
    /// `string` comment, then padding. For keys that [`parse`](Self::parse) cannot turn into a signing key:
    /// those of security keys.
    ///
    /// # Errors
    /// Like [`parse`](Self::parse), and [`KeyFileError::InvalidFormat`] for files in other formats.
    pub fn private_section(
        file: &[u8],
        passphrase: Option<&[u8]>,
    ) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
        let block = pem::Block::find(Self::text_of(file)?)?;
        if block.label != openssh_format::LABEL {
            return Err(KeyFileError::InvalidFormat);
        }
        openssh_format::private_section(&block.decode()?, passphrase).map(|(section, _)| section)
    }

    /// Returns the key in OpenSSH's file format, ending in a newline. With a passphrase it is encrypted with
    /// aes256-ctr and the given number of bcrypt rounds (ssh-keygen's default is 32).
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] for an empty passphrase or zero rounds, [`CryptoError::Library`] when
    /// encryption fails.
    pub fn to_openssh(
        &self,
        comment: &str,
        encrypt: Option<(&[u8], u32)>,
    ) -> Result<Zeroizing<String>, CryptoError> {
        let encrypt =
            encrypt.map(|(passphrase, rounds)| Encryption { passphrase, rounds, cipher: "aes256-ctr" });
        self.to_openssh_with(comment, encrypt.as_ref())
    }

    /// Like [`to_openssh`](Self::to_openssh), with a choice of cipher.
    ///
    /// # Errors
    /// Like [`to_openssh`](Self::to_openssh), and [`CryptoError::Unsupported`] for an unsupported cipher.
    pub fn to_openssh_with(
        &self,
        comment: &str,
        encrypt: Option<&Encryption<'_>>,
    ) -> Result<Zeroizing<String>, CryptoError> {
        openssh_format::write(self.public(), &self.to_wire(), comment, encrypt)
    }

    /// Inverse of [`private_section`](Self::private_section): returns a file in OpenSSH's format with the
    /// type and fields of a key that cannot sign by itself.
    ///
    /// # Errors
    /// Like [`to_openssh_with`](Self::to_openssh_with).
    pub fn seal_section(
        public: &PublicKey,
        fields: &[u8],
        comment: &str,
        encrypt: Option<&Encryption<'_>>,
    ) -> Result<Zeroizing<String>, CryptoError> {
        openssh_format::write(public, fields, comment, encrypt)
    }

    /// Returns the key in PEM for other programs, encrypted if there is a passphrase. These formats have no
    /// comment.
    ///
    /// # Errors
    /// [`CryptoError::Unsupported`] for an empty passphrase, for an Ed25519 key in the traditional format,
    /// which does not support it, and for a composite key in either format.
    pub fn to_pem(
        &self,
        format: PemFormat,
        passphrase: Option<&[u8]>,
    ) -> Result<Zeroizing<String>, CryptoError> {
        let numbers = self.numbers().ok_or(CryptoError::Unsupported { what: "this key in PEM" })?;
        pem_write::private(&numbers, format, passphrase)
    }

    fn text_of(file: &[u8]) -> Result<&str, KeyFileError> {
        if file.len() > MAX_FILE {
            return Err(KeyFileError::InvalidFormat);
        }
        core::str::from_utf8(file).map_err(|_| KeyFileError::InvalidFormat)
    }
}
