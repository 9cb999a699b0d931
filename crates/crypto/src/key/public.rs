//! Public keys.

use super::algorithms;
use super::certificate_contents::Contents;
use super::data::Data;
use super::fingerprint::{self, FingerprintHash};
use super::names::{RSA_SHA2_256, RSA_SHA2_512, SSH_RSA};
use super::security_key::Attested;
use super::signature;
use crate::VerifyError;
use base64ct::{Base64, Encoding};
use core::fmt;
use lh_wire::{Reader, WireError, Writer};

/// Longest base64 text of a key that is decoded, bytes. OpenSSH's limit for a blob is 16 KiB for keys and
/// more for certificates.
const MAX_LINE_KEY: usize = 128 * 1024;

/// A public key. Types that this build cannot verify are preserved as their blob. Certificates are decoded as
/// well.
#[derive(Clone)]
pub struct PublicKey {
    blob: Vec<u8>,
    key_type: String,
    content: Content,
}

/// Decoded content of a blob.
#[derive(Clone)]
enum Content {
    Plain(Data),
    Certificate(Box<Certificate>),
}

/// A parsed certificate. Its content must not be trusted before [`verify`](Self::verify).
#[derive(Debug, Clone)]
pub struct Certificate {
    pub(super) key: PublicKey,
    pub(super) authority: PublicKey,
    pub(super) contents: Contents,
}

impl PublicKey {
    /// Decodes the blob of RFC 4253 section 6.6. Trailing bytes and malformed keys of known types are
    /// refused; keys of unknown types are stored as they are.
    ///
    /// Some programs (Microsoft's dev tunnels) name a signature algorithm of RSA where RFC 8332 section 3 has
    /// `ssh-rsa`. OpenSSH reads that as the RSA key that it is. Such a key gets the blob with `ssh-rsa`, so
    /// that it equals the one in the user's files.
    ///
    /// # Errors
    /// The decoding error.
    pub fn from_blob(blob: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(blob);
        let key_type = reader.text()?;
        if [RSA_SHA2_256, RSA_SHA2_512].contains(&key_type) {
            let mut renamed = Vec::with_capacity(blob.len());
            renamed.put_string(SSH_RSA.as_bytes());
            renamed.extend_from_slice(reader.rest());
            return Self::from_blob(&renamed);
        }
        let content = if algorithms::is_certificate(key_type) {
            match Contents::parse(blob)? {
                Some(contents) => Content::Certificate(Box::new(Certificate {
                    key: Self::from_blob(&contents.key_blob)?,
                    authority: Self::from_blob(&contents.authority_blob)?,
                    contents,
                })),
                None => Content::Plain(Data::Other),
            }
        } else {
            let data = Data::read(key_type, &mut reader)?;
            if !matches!(data, Data::Other) {
                reader.finish()?;
            }
            Content::Plain(data)
        };
        Ok(Self { blob: blob.to_vec(), key_type: key_type.to_owned(), content })
    }

    /// Parses `type base64 [comment]`, as in a `.pub` file, and returns the key and the comment. Callers
    /// handle options (authorized_keys) and host patterns (known_hosts) before it.
    ///
    /// Returns `None` when the line does not have this form, or its type differs from the one in the blob.
    pub fn from_openssh_line(line: &str) -> Option<(Self, String)> {
        let (key_type, rest) = line.trim().split_once([' ', '\t'])?;
        let rest = rest.trim_start();
        let (encoded, comment) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        let key = Self::from_base64(encoded)?;
        (key.key_type == key_type).then(|| (key, comment.trim().to_owned()))
    }

    /// Decodes the base64 of a blob, padded or not.
    pub fn from_base64(encoded: &str) -> Option<Self> {
        if encoded.len() > MAX_LINE_KEY {
            return None;
        }
        // OpenSSH accepts both, and files written by hand contain both.
        let blob = base64ct::Base64Unpadded::decode_vec(encoded.trim_end_matches('=')).ok()?;
        Self::from_blob(&blob).ok()
    }

    /// Returns `type base64 comment` without a newline; without a comment, no trailing space.
    pub fn to_openssh_line(&self, comment: &str) -> String {
        let mut line = format!("{} {}", self.key_type, self.to_base64());
        if !comment.is_empty() {
            line.push(' ');
            line.push_str(comment);
        }
        line
    }

    /// Returns the blob in padded base64.
    pub fn to_base64(&self) -> String {
        Base64::encode_string(&self.blob)
    }

    /// Returns the blob of RFC 4253 section 6.6.
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// Returns the key type in the blob: `ssh-ed25519`, `ecdsa-sha2-nistp256`, `ssh-rsa`, …
    pub fn key_type(&self) -> &str {
        &self.key_type
    }

    /// Returns the short name: `ED25519`, `ECDSA`, `RSA`, `MLDSA44-ED25519`, `ED25519-SK` or `ECDSA-SK`,
    /// followed by `-CERT` for a certificate. OpenSSH's messages and `ssh-keygen -l` use it. Unknown types
    /// keep their full name.
    pub fn display_type(&self) -> String {
        match &self.content {
            Content::Plain(data) => data.display_type().unwrap_or(&self.key_type).to_owned(),
            Content::Certificate(certificate) => format!("{}-CERT", certificate.key.display_type()),
        }
    }

    /// Returns the size that `ssh-keygen -l` prints: bits of the modulus or field; 0 for unknown types.
    pub fn bits(&self) -> usize {
        self.data().bits()
    }

    /// Returns the certificate, if this is one of a supported type.
    pub fn certificate(&self) -> Option<&Certificate> {
        match &self.content {
            Content::Certificate(certificate) => Some(certificate),
            Content::Plain(_) => None,
        }
    }

    /// Returns the key itself; for a certificate, the key that it certifies.
    pub fn plain(&self) -> &Self {
        match &self.content {
            Content::Certificate(certificate) => &certificate.key,
            Content::Plain(_) => self,
        }
    }

    /// Returns `SHA256:…` or `MD5:…`; for a certificate, of the key that it certifies, as in ssh-keygen.
    pub fn fingerprint(&self, hash: FingerprintHash) -> String {
        fingerprint::text(hash, &self.plain().blob)
    }

    /// Returns the SHA-1 fingerprint in Bubble Babble, as in `ssh-keygen -B`.
    pub fn bubblebabble(&self) -> String {
        fingerprint::bubblebabble(&self.plain().blob)
    }

    /// Returns the picture of `ssh-keygen -lv`: eleven lines without a trailing newline.
    pub fn randomart(&self, hash: FingerprintHash) -> String {
        let mut title = format!("[{} {}]", self.display_type(), self.bits());
        if title.len() > 17 {
            title = format!("[{}]", self.display_type());
        }
        fingerprint::randomart(hash, &self.plain().blob, &title)
    }

    /// Returns the signature algorithms of this key, best first (RFC 8332 for RSA; `ssh-rsa` last). Empty for
    /// types that this build cannot verify.
    pub fn signature_algorithms(&self) -> &'static [&'static str] {
        match &self.content {
            Content::Plain(data) => data.signature_algorithms(),
            Content::Certificate(certificate) => certificate.key.data().certificate_algorithms(),
        }
    }

    /// Verifies a signature blob (`string` algorithm, `string` signature) over `data`. `algorithm` is the
    /// negotiated one, which may be a certificate's name; a blob that names another algorithm is refused.
    ///
    /// A certificate's signature is verified with the key that it certifies. Whether to trust the certificate
    /// is decided by [`Certificate::verify`] and the caller. Signatures of security keys are accepted only
    /// when the user touched the key.
    ///
    /// # Errors
    /// The reason why the signature is not accepted.
    pub fn verify(&self, algorithm: &str, data: &[u8], signature_blob: &[u8]) -> Result<(), VerifyError> {
        match self.verify_attested(algorithm, data, signature_blob)? {
            // Security keys exist to prevent signatures by software that gained access to a plugged-in key.
            Some(Attested { present: false, .. }) => Err(VerifyError::BadSignature),
            _ => Ok(()),
        }
    }

    /// Like [`verify`](Self::verify), but leaves it to the caller whether a security key must have been
    /// touched. Returns the key's statement about the user, `None` for other keys.
    ///
    /// # Errors
    /// The reason why the signature is not accepted.
    pub fn verify_attested(
        &self,
        algorithm: &str,
        data: &[u8],
        signature_blob: &[u8],
    ) -> Result<Option<Attested>, VerifyError> {
        if !self.signature_algorithms().contains(&algorithm) {
            return Err(VerifyError::WrongAlgorithm);
        }
        let algorithm = algorithms::plain(algorithm);
        let (signature, rest) = signature::open_blob(signature_blob, &algorithm)?;
        self.data().verify(&algorithm, data, signature, rest)
    }

    /// Returns the decoded key; for a certificate, the key that it certifies.
    pub(super) fn data(&self) -> &Data {
        match &self.content {
            Content::Plain(data) => data,
            Content::Certificate(certificate) => certificate.key.data(),
        }
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.blob == other.blob
    }
}

impl Eq for PublicKey {}

impl core::hash::Hash for PublicKey {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.blob.hash(state);
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({} {})", self.key_type, self.fingerprint(FingerprintHash::Sha256))
    }
}
