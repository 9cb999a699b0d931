//! Host and user keys, and the files they live in.
//!
//! A [`PublicKey`] is its blob: what a peer sent is kept and re-emitted byte for byte, and types this build knows are
//! read once, when the blob arrives. A [`PrivateKey`] is the library's key for signing beside the numbers it was made
//! from, because OpenSSH's file format and the agent protocol want the numbers back.

mod certificate;
mod curve;
mod der;
mod file_cipher;
mod fingerprint;
mod krl;
mod openssh_format;
mod pem;
mod private;
mod public;
mod rsa;
mod security_key;
mod signature;

pub use certificate::{Certificate, CertificateError, CertificateKind};
pub use fingerprint::FingerprintHash;
pub use krl::{Krl, KrlCertificates, KrlContents, KrlError};
pub use private::{KeyType, PrivateKey};
pub use public::PublicKey;
pub use security_key::Attested;
