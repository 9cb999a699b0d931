//! Public keys.

use crate::VerifyError;
use lh_wire::WireError;

/// Which hash a fingerprint is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FingerprintHash {
    /// `SHA256:` and unpadded base64.
    Sha256,
    /// `MD5:` and hex with colons.
    Md5,
}

/// A public key. Types this build cannot verify (and certificates) survive as their blob.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PublicKey {
    blob: Vec<u8>,
    key_type: String,
}

impl PublicKey {
    /// Reads the blob of RFC 4253 section 6.6. Trailing bytes and malformed known keys are refused; key types that
    /// are not known are kept as they are.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn from_blob(blob: &[u8]) -> Result<Self, WireError> {
        let key_type = lh_wire::Reader::new(blob).text()?.to_owned();
        Ok(Self { blob: blob.to_vec(), key_type })
    }

    /// Reads `type base64 [comment]`, as in a `.pub` file, and returns the comment. Options in front
    /// (authorized_keys) and host patterns (known_hosts) are the callers' business.
    pub fn from_openssh_line(_line: &str) -> Option<(Self, String)> {
        None
    }

    /// `type base64 comment` without a newline; without a comment, no trailing space.
    pub fn to_openssh_line(&self, _comment: &str) -> String {
        String::new()
    }

    /// The blob of RFC 4253 section 6.6.
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// The key type in the blob: `ssh-ed25519`, `ecdsa-sha2-nistp256`, `ssh-rsa`, …
    pub fn key_type(&self) -> &str {
        &self.key_type
    }

    /// The size `ssh-keygen -l` prints: bits of the modulus or field; 0 for types that are not known.
    pub fn bits(&self) -> usize {
        0
    }

    /// `SHA256:…` or `MD5:…`.
    pub fn fingerprint(&self, _hash: FingerprintHash) -> String {
        String::new()
    }

    /// The picture `ssh-keygen -lv` prints: eleven lines without a trailing newline.
    pub fn randomart(&self, _hash: FingerprintHash) -> String {
        String::new()
    }

    /// The signature algorithms this key can be used with, best first (RFC 8332 for RSA; `ssh-rsa` last).
    /// Empty for types this build cannot verify.
    pub fn signature_algorithms(&self) -> &'static [&'static str] {
        &[]
    }

    /// Checks a signature blob (`string` algorithm, `string` signature) over `data`. `algorithm` is the one that was
    /// negotiated; a blob that names another is refused.
    ///
    /// # Errors
    /// Why the signature is not accepted.
    pub fn verify(&self, _algorithm: &str, _data: &[u8], _signature_blob: &[u8]) -> Result<(), VerifyError> {
        Err(VerifyError::WrongAlgorithm)
    }
}
