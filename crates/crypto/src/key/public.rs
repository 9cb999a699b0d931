//! Public keys.

use super::algorithms;
use super::certificate::Certificate;
use super::composite;
use super::curve::Curve;
use super::fingerprint::{self, FingerprintHash};
use super::security_key::{self, Attested};
use super::signature::{
    self, ED25519, MLDSA44_ED25519, RSA_SHA2_256, RSA_SHA2_512, SK_ECDSA, SK_ED25519, SSH_RSA,
};
use crate::VerifyError;
use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, UnparsedPublicKey,
};
use base64ct::{Base64, Encoding};
use core::fmt;
use lh_wire::{Mpint, Reader, WireError};

/// Longest base64 text of a key that is decoded, bytes. OpenSSH's limit for a blob is 16 KiB for keys and
/// more for certificates.
const MAX_LINE_KEY: usize = 128 * 1024;

/// A public key. Types that this build cannot verify are preserved as their blob. Certificates are decoded as
/// well.
#[derive(Clone)]
pub struct PublicKey {
    blob: Vec<u8>,
    key_type: String,
    data: Data,
}

/// Decoded content of a blob, for the supported types.
#[derive(Clone)]
pub(super) enum Data {
    Ed25519([u8; 32]),
    MlDsaEd25519(Box<[u8; composite::PUBLIC_LEN]>),
    Ecdsa(Curve, Vec<u8>),
    /// Magnitudes of `e` and `n`.
    Rsa {
        e: Vec<u8>,
        n: Vec<u8>,
    },
    SkEd25519 {
        point: [u8; 32],
        application: Vec<u8>,
    },
    SkEcdsa {
        point: Vec<u8>,
        application: Vec<u8>,
    },
    Certificate(Box<Certificate>),
    Other,
}

impl PublicKey {
    /// Decodes the blob of RFC 4253 section 6.6. Trailing bytes and malformed keys of known types are
    /// refused; keys of unknown types are stored as they are.
    ///
    /// # Errors
    /// The decoding error.
    pub fn from_blob(blob: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(blob);
        let key_type = reader.text()?;
        let data = if algorithms::is_certificate(key_type) {
            match Certificate::parse(blob)? {
                Some(certificate) => Data::Certificate(Box::new(certificate)),
                None => Data::Other,
            }
        } else {
            let data = Data::read(key_type, &mut reader)?;
            if !matches!(data, Data::Other) {
                reader.finish()?;
            }
            data
        };
        Ok(Self { blob: blob.to_vec(), key_type: key_type.to_owned(), data })
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
        match &self.data {
            Data::Ed25519(_) => "ED25519".into(),
            Data::MlDsaEd25519(_) => "MLDSA44-ED25519".into(),
            Data::Ecdsa(..) => "ECDSA".into(),
            Data::Rsa { .. } => "RSA".into(),
            Data::SkEd25519 { .. } => "ED25519-SK".into(),
            Data::SkEcdsa { .. } => "ECDSA-SK".into(),
            Data::Certificate(certificate) => format!("{}-CERT", certificate.key().display_type()),
            Data::Other => self.key_type.clone(),
        }
    }

    /// Returns the size that `ssh-keygen -l` prints: bits of the modulus or field; 0 for unknown types.
    pub fn bits(&self) -> usize {
        match &self.data {
            Data::Ed25519(_) | Data::MlDsaEd25519(_) | Data::SkEd25519 { .. } | Data::SkEcdsa { .. } => 256,
            Data::Ecdsa(curve, _) => curve.bits(),
            Data::Rsa { n, .. } => Mpint::from_magnitude(n).bits(),
            Data::Certificate(certificate) => certificate.key().bits(),
            Data::Other => 0,
        }
    }

    /// Returns the certificate, if this is one of a supported type.
    pub fn certificate(&self) -> Option<&Certificate> {
        match &self.data {
            Data::Certificate(certificate) => Some(certificate),
            _ => None,
        }
    }

    /// Returns the key itself; for a certificate, the key that it certifies.
    pub fn plain(&self) -> &Self {
        match &self.data {
            Data::Certificate(certificate) => certificate.key(),
            _ => self,
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
        match &self.data {
            Data::Ed25519(_) => &[ED25519],
            Data::MlDsaEd25519(_) => &[MLDSA44_ED25519],
            Data::Ecdsa(Curve::P256, _) => &["ecdsa-sha2-nistp256"],
            Data::Ecdsa(Curve::P384, _) => &["ecdsa-sha2-nistp384"],
            Data::Ecdsa(Curve::P521, _) => &["ecdsa-sha2-nistp521"],
            Data::Rsa { .. } => &[RSA_SHA2_512, RSA_SHA2_256, SSH_RSA],
            Data::SkEd25519 { .. } => &[SK_ED25519],
            Data::SkEcdsa { .. } => &[SK_ECDSA],
            Data::Certificate(certificate) => match &certificate.key().data {
                Data::Ed25519(_) => &["ssh-ed25519-cert-v01@openssh.com"],
                Data::MlDsaEd25519(_) => &["ssh-mldsa44-ed25519-cert-v01@openssh.com"],
                Data::Ecdsa(Curve::P256, _) => &["ecdsa-sha2-nistp256-cert-v01@openssh.com"],
                Data::Ecdsa(Curve::P384, _) => &["ecdsa-sha2-nistp384-cert-v01@openssh.com"],
                Data::Ecdsa(Curve::P521, _) => &["ecdsa-sha2-nistp521-cert-v01@openssh.com"],
                Data::Rsa { .. } => &[
                    "rsa-sha2-512-cert-v01@openssh.com",
                    "rsa-sha2-256-cert-v01@openssh.com",
                    "ssh-rsa-cert-v01@openssh.com",
                ],
                Data::SkEd25519 { .. } => &["sk-ssh-ed25519-cert-v01@openssh.com"],
                Data::SkEcdsa { .. } => &["sk-ecdsa-sha2-nistp256-cert-v01@openssh.com"],
                Data::Certificate(_) | Data::Other => &[],
            },
            Data::Other => &[],
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
        match &self.plain().data {
            Data::SkEd25519 { point, application } => {
                let (signed, attested) = security_key::signed_data(application, data, rest)?;
                return verify_ed25519(point, &signed, signature).map(|()| Some(attested));
            }
            Data::SkEcdsa { point, application } => {
                let (signed, attested) = security_key::signed_data(application, data, rest)?;
                return verify_ecdsa(Curve::P256, point, &signed, signature).map(|()| Some(attested));
            }
            _ => {}
        }
        rest.finish().map_err(|_| VerifyError::Malformed { why: "trailing bytes" })?;
        match &self.plain().data {
            Data::Ed25519(point) => verify_ed25519(point, data, signature),
            Data::MlDsaEd25519(key) => composite::verify(key, data, signature),
            Data::Ecdsa(curve, point) => verify_ecdsa(*curve, point, data, signature),
            Data::Rsa { e, n } => verify_rsa(&algorithm, e, n, data, signature),
            _ => Err(VerifyError::WrongAlgorithm),
        }
        .map(|()| None)
    }

    pub(super) const fn data(&self) -> &Data {
        &self.data
    }
}

impl Data {
    /// Decodes the fields after the type name; reads nothing of an unknown type.
    pub(super) fn read(key_type: &str, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        if let Some(curve) = Curve::by_key_type(key_type) {
            return Ok(Self::Ecdsa(curve, read_point(curve, reader)?));
        }
        Ok(match key_type {
            ED25519 => Self::Ed25519(read_ed25519(reader)?),
            MLDSA44_ED25519 => {
                let key = reader.string()?.try_into();
                Self::MlDsaEd25519(Box::new(key.map_err(|_| WireError::Invalid { what: "ML-DSA key" })?))
            }
            SSH_RSA => {
                let (e, n) = (reader.mpint()?.magnitude(), reader.mpint()?.magnitude());
                // Zero would make the library's arithmetic meaningless. Sizes are policy and checked on use.
                if e.is_empty() || n.is_empty() {
                    return Err(WireError::Invalid { what: "RSA key" });
                }
                Self::Rsa { e: e.to_vec(), n: n.to_vec() }
            }
            SK_ED25519 => {
                Self::SkEd25519 { point: read_ed25519(reader)?, application: reader.string()?.to_vec() }
            }
            SK_ECDSA => Self::SkEcdsa {
                point: read_point(Curve::P256, reader)?,
                application: reader.string()?.to_vec(),
            },
            _ => Self::Other,
        })
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

fn read_ed25519(reader: &mut Reader<'_>) -> Result<[u8; 32], WireError> {
    reader.string()?.try_into().map_err(|_| WireError::Invalid { what: "Ed25519 key" })
}

/// Reads `string` curve identifier and `string` point (RFC 5656 section 3.1). Compressed points are optional
/// there; OpenSSH does not accept them either.
fn read_point(curve: Curve, reader: &mut Reader<'_>) -> Result<Vec<u8>, WireError> {
    let identifier = reader.string()?;
    let point = reader.string()?;
    if identifier != curve.identifier().as_bytes()
        || point.len() != curve.point_len()
        || point.first() != Some(&4)
    {
        return Err(WireError::Invalid { what: "ECDSA key" });
    }
    Ok(point.to_vec())
}

fn verify_ed25519(point: &[u8; 32], data: &[u8], signature: &[u8]) -> Result<(), VerifyError> {
    if signature.len() != 64 {
        return Err(VerifyError::Malformed { why: "wrong length" });
    }
    UnparsedPublicKey::new(&aws_lc_rs::signature::ED25519, point)
        .verify(data, signature)
        .map_err(|_| VerifyError::BadSignature)
}

fn verify_ecdsa(curve: Curve, point: &[u8], data: &[u8], signature: &[u8]) -> Result<(), VerifyError> {
    let fixed = signature::ecdsa_to_fixed(curve, signature)?;
    UnparsedPublicKey::new(curve.verification(), point)
        .verify(data, &fixed)
        .map_err(|_| VerifyError::BadSignature)
}

/// Verifies an RSA signature, with keys from 1024 bits up. Whether such a small key is accepted is policy
/// (`RequiredRSASize`), see [`PublicKey::bits`].
fn verify_rsa(algorithm: &str, e: &[u8], n: &[u8], data: &[u8], signature: &[u8]) -> Result<(), VerifyError> {
    let parameters = match algorithm {
        RSA_SHA2_512 => &RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        RSA_SHA2_256 => &RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        SSH_RSA => &RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        _ => return Err(VerifyError::WrongAlgorithm),
    };
    let key = PublicKeyComponents { n, e };
    // RFC 8332 requires a signature as long as the modulus. Some signers drop leading zeros, and OpenSSH
    // accepts those.
    let mut padded = Vec::with_capacity(n.len());
    super::curve::put_padded(&mut padded, signature, n.len())
        .ok_or(VerifyError::Malformed { why: "wrong length" })?;
    if n.len() > 1024 {
        let right = super::rsa::verify_long(algorithm, e, n, data, &padded);
        return if right { Ok(()) } else { Err(VerifyError::BadSignature) };
    }
    key.verify(parameters, data, &padded).map_err(|_| VerifyError::BadSignature)
}
