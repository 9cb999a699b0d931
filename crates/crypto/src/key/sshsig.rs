//! Signatures of files (OpenSSH's PROTOCOL.sshsig).

use super::PublicKey;
use super::names::{RSA_SHA2_256, RSA_SHA2_512, SSH_RSA};
use crate::{Hash, VerifyError};
use base64ct::{Base64, Encoding};
use lh_wire::{Reader, WireError, Writer};

const MAGIC: &[u8] = b"SSHSIG";
const VERSION: u32 = 1;
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
const COLUMNS: usize = 70;

/// Longest text of a signature that is parsed, bytes: more than the largest key and signature need.
const MAX_TEXT: usize = 1024 * 1024;

/// A signature over a file, or over other data of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshSignature {
    /// The key that signed, or a certificate for it.
    pub key: PublicKey,
    /// Kind of the signed data (`file`, `git`, …), so that a signature for one is not accepted for another.
    /// Untrusted: escape it before printing.
    pub namespace: String,
    /// The hash of the data: `sha256` or `sha512`.
    pub hash: String,
    /// The signature blob: `string` algorithm, `string` signature.
    pub signature: Vec<u8>,
}

/// Reason why a signature cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SshSignatureError {
    /// The text is not an armored signature.
    #[error("invalid format")]
    Format,
    /// The bytes are not a signature.
    #[error("invalid format: {0}")]
    Wire(#[from] WireError),
    /// The version is newer than ours.
    #[error("unsupported signature version {0}")]
    Version(u32),
    /// A hash that the format does not permit.
    #[error("unsupported hash algorithm {0}")]
    Hash(String),
    /// An algorithm that the format does not permit: RSA with SHA-1.
    #[error("unsupported signature algorithm {0}")]
    Algorithm(String),
    /// The signature was made for another namespace.
    #[error("signature is for another namespace")]
    Namespace,
    /// The signature does not match the key and the data.
    #[error(transparent)]
    Verify(#[from] VerifyError),
}

impl SshSignature {
    /// Parses the armored form.
    ///
    /// # Errors
    /// The problem with the text.
    pub fn from_armor(text: &str) -> Result<Self, SshSignatureError> {
        if text.len() > MAX_TEXT {
            return Err(SshSignatureError::Format);
        }
        let rest = text.strip_prefix(BEGIN).ok_or(SshSignatureError::Format)?;
        let (body, _) = rest.split_once(END).ok_or(SshSignatureError::Format)?;
        let encoded: String = body.chars().filter(|each| !each.is_ascii_whitespace()).collect();
        Self::from_bytes(&Base64::decode_vec(&encoded).map_err(|_| SshSignatureError::Format)?)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, SshSignatureError> {
        let mut reader = Reader::new(bytes.strip_prefix(MAGIC).ok_or(SshSignatureError::Format)?);
        match reader.u32()? {
            VERSION => {}
            other => return Err(SshSignatureError::Version(other)),
        }
        let key = PublicKey::from_blob(reader.string()?)?;
        let namespace = reader.text()?.to_owned();
        let _reserved = reader.string()?;
        let hash = reader.text()?.to_owned();
        let signature = reader.string()?.to_vec();
        reader.finish()?;
        Ok(Self { key, namespace, hash, signature })
    }

    /// Returns the armored form, ending in a newline.
    pub fn to_armor(&self) -> String {
        let mut bytes = MAGIC.to_vec();
        bytes.put_u32(VERSION);
        bytes.put_string(self.key.blob());
        bytes.put_string(self.namespace.as_bytes());
        bytes.put_string(b"");
        bytes.put_string(self.hash.as_bytes());
        bytes.put_string(&self.signature);
        let mut out = format!("{BEGIN}\n");
        let encoded = Base64::encode_string(&bytes);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, tail) = rest.split_at(rest.len().min(COLUMNS));
            out.push_str(line);
            out.push('\n');
            rest = tail;
        }
        out + END + "\n"
    }

    /// Returns the hash of the data.
    ///
    /// # Errors
    /// [`SshSignatureError::Hash`] for a hash that the format does not permit.
    pub fn hash(&self) -> Result<Hash, SshSignatureError> {
        hash_by_name(&self.hash)
            .ok_or_else(|| SshSignatureError::Hash(self.hash.escape_default().to_string()))
    }

    /// Verifies the signature over data with this digest (by [`hash`](Self::hash)) and, for a certificate,
    /// the authority's signature. It does not check whose key it is.
    ///
    /// # Errors
    /// The reason why the signature is not accepted.
    pub fn verify(&self, namespace: &str, digest: &[u8]) -> Result<(), SshSignatureError> {
        if self.namespace != namespace {
            return Err(SshSignatureError::Namespace);
        }
        let algorithm = Reader::new(&self.signature).text()?;
        // A hash over a hash is only as strong as the weaker of the two; the format excludes SHA-1.
        let rsa = self.key.plain().key_type() == SSH_RSA;
        if rsa && ![RSA_SHA2_256, RSA_SHA2_512].contains(&algorithm) {
            return Err(SshSignatureError::Algorithm(algorithm.escape_default().to_string()));
        }
        // A certificate without its authority's signature proves nothing and must not look valid.
        if let Some(certificate) = self.key.certificate() {
            certificate.verify(&[certificate.signature_algorithm()])?;
        }
        let signed = signed_data(namespace, self.hash()?, digest);
        Ok(self.key.plain().verify(algorithm, &signed, &self.signature)?)
    }
}

/// Returns the bytes that a key signs: the digest of the data, in an envelope that differs from all other SSH
/// messages.
pub fn signed_data(namespace: &str, hash: Hash, digest: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.put_string(namespace.as_bytes());
    out.put_string(b"");
    out.put_string(hash_name(hash).as_bytes());
    out.put_string(digest);
    out
}

/// Finds `sha256` or `sha512`; the format permits no others.
fn hash_by_name(name: &str) -> Option<Hash> {
    [Hash::Sha256, Hash::Sha512].into_iter().find(|hash| hash_name(*hash) == name)
}

const fn hash_name(hash: Hash) -> &'static str {
    match hash {
        Hash::Sha1 => "sha1",
        Hash::Sha256 => "sha256",
        Hash::Sha384 => "sha384",
        Hash::Sha512 => "sha512",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyType, PrivateKey};
    use proptest::prelude::*;

    fn signature(namespace: &str, data: &[u8]) -> SshSignature {
        let key = PrivateKey::generate(KeyType::EcdsaP256, None).expect("a key");
        let digest = Hash::Sha512.digest(&[data]);
        let signed = signed_data(namespace, Hash::Sha512, digest.as_ref());
        SshSignature {
            key: key.public().clone(),
            namespace: namespace.into(),
            hash: "sha512".into(),
            signature: key.sign("ecdsa-sha2-nistp256", &signed).expect("signed"),
        }
    }

    #[test]
    fn signature_is_bound_to_data_and_namespace() {
        let signature = signature("file", b"data");
        let digest = |data: &[u8]| Hash::Sha512.digest(&[data]);
        assert_eq!(signature.verify("file", digest(b"data").as_ref()), Ok(()));
        assert_eq!(signature.verify("file", digest(b"date").as_ref()), Err(VerifyError::BadSignature.into()));
        assert_eq!(signature.verify("git", digest(b"data").as_ref()), Err(SshSignatureError::Namespace));
        let weak = SshSignature { hash: "sha1".into(), ..signature };
        assert_eq!(
            weak.verify("file", digest(b"data").as_ref()),
            Err(SshSignatureError::Hash("sha1".into()))
        );
    }

    proptest! {
        #[test]
        fn armor_round_trips_and_damage_never_panics(
            namespace in "[a-z]{1,9}",
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let signature = signature(&namespace, b"data");
            let armor = signature.to_armor();
            prop_assert_eq!(&SshSignature::from_armor(&armor), &Ok(signature));
            let mut bytes = armor.into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = SshSignature::from_armor(&String::from_utf8_lossy(&bytes));
        }
    }
}
