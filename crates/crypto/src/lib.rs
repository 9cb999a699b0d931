//! Algorithms by their SSH names: packet ciphers, MACs, key exchanges, keys and key files.
//!
//! This is the only crate that uses a crypto library, so that the choice can be reviewed, or changed, in
//! one place. [`registry`] has one row for each algorithm; what programs offer, accept and list derives from
//! it.
//!
//! # What comes from a library
//!
//! - **AWS-LC** through `aws-lc-rs`: AES, AES-GCM, ChaCha20-Poly1305, SHA-1 and SHA-2, HMAC, PBKDF2,
//!   X25519, NIST curves, ML-KEM, Ed25519, ECDSA, RSA, random numbers.
//! - **AWS-LC** through `lh_crypto_sys`, what its safe interface leaves out: RSA over SHA-1 or of unusual
//!   sizes, ML-DSA with a context.
//! - **`sntrup`**: Streamlined NTRU Prime 761.
//! - **`chacha20` and `poly1305`**: ChaCha20-Poly1305 on CPUs with AVX-512, where they are faster than
//!   AWS-LC.
//! - **`crypto-bigint`**: arithmetic of finite-field Diffie-Hellman (in constant time), of primality
//!   tests, and of the numbers that OpenSSH's RSA format leaves out.
//! - **`bcrypt-pbkdf`, `base64ct`**: key derivation and base64 of key files, the latter without
//!   secret-dependent branches.
//! - **`md-5`, `hmac`, `des`**: MD5 fingerprints and old PEM files; HMAC-MD5 and Triple DES for old
//!   equipment.
//! - **`subtle`, `zeroize`**: comparison in constant time, wiping.
//!
//! A build with the feature `fips` takes AWS-LC from `aws-lc-fips-sys`, and refuses every algorithm that
//! another library computes. What remains of the others reads old key files and prints fingerprints
//! (docs/fips.md).
//!
//! # What is implemented here, and why
//!
//! - **Packet modes** (`packet/`): how SSH joins ciphers and MACs to packets, encrypted length fields and
//!   nonces. Each mode is a composition of library calls; SSH's own framing is in no general library. CBC
//!   over Triple DES is the one block mode with a loop of its own: `des` has only the block cipher.
//! - **UMAC** (`umac/`): the MACs that OpenSSH prefers. No maintained library offers them. It is 32-bit
//!   and 64-bit arithmetic over AWS-LC's AES. Tests compare it with RFC 4418's vectors and with a slow
//!   second implementation that follows the RFC's text.
//! - **Finite-field Diffie-Hellman** (`kex/dh.rs`, `kex/groups.rs`): the checks of RFC 4253, 4419 and 8268
//!   around one exponentiation of `crypto-bigint`. AWS-LC's safe interface has no such key agreement.
//! - **Hybrid key exchange** (`kex/hybrid.rs`): two libraries' secrets, hashed together as the drafts
//!   specify.
//! - **Composite signatures** (`key/composite.rs`): ML-DSA and Ed25519 over one message, as the draft
//!   specifies.
//! - **Formats** (`key/`): SSH's own (keys, certificates, signatures, revocation lists, ssh.com's), and
//!   those of other programs: a small DER and PEM reader and writer for PKCS#1, PKCS#8 and SEC1.
//!   RustCrypto's `der` refuses lengths that are not minimal, and its `pem-rfc7468` headers (`DEK-Info`)
//!   and lines of unequal length; files of other tools may have all three. The fuzz target `key_files`
//!   covers the readers.
//!
//! # Design decisions
//!
//! - **Packet keys are shared, not advanced.** [`PacketKey`] takes `&self` and an explicit
//!   [`PacketIndex`], so any number of workers can seal or open different packets of one connection at
//!   once. Nothing is allocated per packet, and everything happens in place. (CBC, for old equipment, is
//!   the exception.)
//! - **Secrets wipe themselves** ([`zeroize::Zeroizing`]), have no `Debug`, and are compared in constant
//!   time.
//! - **No callbacks.** A private key may be in another process. Callers request a signature over bytes and
//!   pass the finished blob on, so the protocol state machines call nothing in this crate back.

mod cipher;
mod error;
#[cfg(all(test, feature = "fips"))]
mod fips_tests;
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

/// True for a build with the feature `fips`: it has AWS-LC's FIPS module, and only the algorithms that the
/// [registry] marks as approved.
pub const FIPS: bool = cfg!(feature = "fips");

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
    SshSignature, SshSignatureError, SshfpHash, bcrypt_kdf, ecdsa_numbers, signed_data,
};
pub use listing::{Listing, Offered};
pub use mac::Mac;
pub use packet::{Direction, KeyLimits, PacketIndex, PacketKey};
pub use prime::is_probable_prime;
pub use random::{Random, SystemRandom};
pub use zeroize::Zeroizing;
