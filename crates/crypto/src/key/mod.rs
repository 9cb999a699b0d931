//! Host and user keys, and the files they live in.
//!
//! A [`PublicKey`] is its blob: what a peer sent is kept and re-emitted byte for byte, and types this build knows are
//! read once, when the blob arrives. A [`PrivateKey`] is the library's key for signing beside the numbers it was made
//! from, because OpenSSH's file format and the agent protocol want the numbers back.

pub mod algorithms;
mod certificate;
mod certify;
mod composite;
mod curve;
mod der;
mod file_cipher;
mod fingerprint;
mod krl;
mod oid;
mod openssh_format;
mod pem;
mod pem_write;
mod private;
mod public;
mod rsa;
mod security_key;
mod signature;
mod ssh2_format;
mod sshsig;

pub use certificate::{Certificate, CertificateError, CertificateKind};
pub use certify::CertificateFields;
pub use fingerprint::FingerprintHash;
pub use krl::{Krl, KrlCertificates, KrlContents, KrlError};
pub use openssh_format::Encryption;
pub use pem_write::PemFormat;
pub use private::{KeyType, PrivateKey};
pub use public::PublicKey;
pub use ssh2_format::SSH2_PRIVATE_BEGIN;
pub use sshsig::{SshSignature, SshSignatureError, signed_data};

/// bcrypt_pbkdf (OpenSSH's key files, the lock of its agent): `len` bytes from a passphrase, slow on purpose. `None` for an empty
/// passphrase or salt and for zero rounds.
pub fn bcrypt_kdf(
    passphrase: &[u8],
    salt: &[u8],
    rounds: u32,
    len: usize,
) -> Option<zeroize::Zeroizing<Vec<u8>>> {
    openssh_format::derive(passphrase, salt, rounds, len)
}
pub use security_key::Attested;
