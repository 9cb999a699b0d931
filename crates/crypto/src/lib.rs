//! Algorithms by their SSH names: packet ciphers, MACs, key exchanges, keys and key files.
//!
//! This is the only crate that uses a crypto library (AWS-LC through `aws-lc-rs`; some calls go through
//! `lh_sys`), so that the choice can be reviewed, or changed, in one place. Design decisions:
//!
//! - **Packet keys are shared, not advanced.** [`PacketKey`] takes `&self` and an explicit [`PacketIndex`],
//!   so any number of workers can seal or open different packets of one connection at once. Nothing is
//!   allocated per packet, and everything happens in place. (CBC, for old equipment, is the exception.)
//! - **Secrets wipe themselves** ([`zeroize::Zeroizing`]), have no `Debug`, and are compared in constant
//!   time.
//! - **No callbacks.** A private key may be in another process. Callers request a signature over bytes and
//!   pass the finished blob on, so the protocol state machines call nothing in this crate back.

mod cipher;
mod error;
mod hash;
mod kex;
mod key;
mod listing;
mod mac;
mod packet;
mod prime;
mod random;
pub mod registry;
mod umac;

/// Returns true when both slices are equal. The time depends only on the length, so that secrets can be
/// compared.
pub fn constant_time_eq(left: &[u8], right: &[u8]) -> bool {
    subtle::ConstantTimeEq::ct_eq(left, right).into()
}

pub use cipher::Cipher;
pub use error::{CryptoError, KexError, KeyFileError, OpenError, VerifyError};
pub use hash::{Digest, Hash, Hasher, Md5Hasher, Tag};
pub use kex::{DhGroup, EphemeralKey, KexAlgorithm, KexFamily, SharedSecret, derive_key, kex_respond};
pub use key::Attested;
pub use key::algorithms as key_algorithms;
pub use key::{
    Certificate, CertificateError, CertificateFields, CertificateKind, Encryption, FingerprintHash, KeyType,
    Krl, KrlCertificates, KrlContents, KrlError, PemFormat, PrivateKey, PublicKey, SSH2_PRIVATE_BEGIN,
    SshSignature, SshSignatureError, bcrypt_kdf, signed_data,
};
pub use listing::{Listing, Offered};
pub use mac::Mac;
pub use packet::{Direction, KeyLimits, PacketIndex, PacketKey};
pub use prime::is_probable_prime;
pub use random::{Random, SystemRandom};
pub use zeroize::Zeroizing;
