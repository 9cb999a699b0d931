//! Host and user keys, and their file formats.
//!
//! A [`PublicKey`] stores its blob: a peer's blob is kept and sent on byte for byte, and known types are
//! decoded once, when the blob arrives. A [`PrivateKey`] holds the library's signing key and the numbers that
//! it was made from, because OpenSSH's file format and the agent protocol need the numbers.

pub mod algorithms;
mod certificate;
mod certificate_contents;
mod certify;
#[cfg(not(feature = "fips"))]
mod composite;
#[cfg(feature = "fips")]
#[path = "composite_absent.rs"]
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

/// Returns the numbers r and s of an ECDSA signature in DER (RFC 3279 section 2.2.3), as FIDO devices make
/// them: big-endian, without leading zeros. Returns `None` for anything else.
pub fn ecdsa_numbers(signature: &[u8]) -> Option<[&[u8]; 2]> {
    let mut outer = der::Der::new(signature);
    let mut numbers = outer.sequence().ok()?;
    let [r, s] = [numbers.unsigned().ok()?, numbers.unsigned().ok()?];
    (numbers.is_empty() && outer.is_empty()).then_some([r, s])
}

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

#[cfg(test)]
mod tests {
    use super::ecdsa_numbers;

    #[test]
    fn ecdsa_numbers_are_read_from_der() {
        let signature = [0x30, 8, 2, 2, 0, 0x80, 2, 2, 1, 2];
        assert_eq!(ecdsa_numbers(&signature), Some([&[0x80][..], &[1, 2]]));
        for length in 0..signature.len() {
            assert_eq!(ecdsa_numbers(&signature[..length]), None);
        }
        // Bytes after the sequence, bytes in it after the numbers, a negative number.
        assert_eq!(ecdsa_numbers(&[&signature[..], &[0]].concat()), None);
        assert_eq!(ecdsa_numbers(&[0x30, 8, 2, 1, 1, 2, 1, 2, 5, 0]), None);
        assert_eq!(ecdsa_numbers(&[0x30, 6, 2, 1, 0x80, 2, 1, 2]), None);
    }
}
