//! Host and user keys, and their file formats.
//!
//! A [`PublicKey`] stores its blob: a peer's blob is kept and sent on byte for byte, and known types are
//! decoded once, when the blob arrives. A [`PrivateKey`] holds the library's signing key and the numbers that
//! it was made from, because OpenSSH's file format and the agent protocol need the numbers.

pub mod algorithms;
mod certificate;
mod certificate_contents;
mod certify;
mod composite;
mod curve;
mod data;
mod der;
mod file_cipher;
mod fingerprint;
mod krl;
pub(crate) mod names;
mod oid;
mod openssh_format;
mod pem;
mod pem_write;
mod private;
mod private_file;
mod public;
mod rsa;
mod security_key;
mod signature;
mod ssh2_format;
mod sshfp;
mod sshsig;
mod x509;

pub use certificate::CertificateError;
pub use certificate_contents::CertificateKind;
pub use certify::CertificateFields;
pub use fingerprint::FingerprintHash;
pub use krl::{Krl, KrlCertificates, KrlContents, KrlError};
pub use openssh_format::Encryption;
pub use pem_write::PemFormat;
pub use private::{KeyType, PrivateKey};
pub use public::{Certificate, PublicKey};
pub use security_key::Attested;
pub use ssh2_format::SSH2_PRIVATE_BEGIN;
pub use sshfp::SshfpHash;
pub use sshsig::{SshSignature, SshSignatureError, signed_data};

/// Derives `len` bytes from a passphrase by bcrypt_pbkdf (OpenSSH's key files, the lock of its agent), which
/// is slow on purpose. Returns `None` for an empty passphrase or salt and for zero rounds.
pub fn bcrypt_kdf(
    passphrase: &[u8],
    salt: &[u8],
    rounds: u32,
    len: usize,
) -> Option<zeroize::Zeroizing<Vec<u8>>> {
    openssh_format::derive(passphrase, salt, rounds, len)
}
