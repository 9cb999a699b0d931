//! Decoded public keys, without their blobs: sizes, names and signature checks of each type.

use super::composite;
use super::curve::Curve;
use super::names::{
    ECDSA_P256, ECDSA_P256_CERT, ECDSA_P384, ECDSA_P384_CERT, ECDSA_P521, ECDSA_P521_CERT, ED25519,
    ED25519_CERT, MLDSA44_ED25519, MLDSA44_ED25519_CERT, RSA_SHA2_256, RSA_SHA2_256_CERT, RSA_SHA2_512,
    RSA_SHA2_512_CERT, SK_ECDSA, SK_ECDSA_CERT, SK_ED25519, SK_ED25519_CERT, SSH_RSA, SSH_RSA_CERT,
};
use super::security_key::{self, Attested};
use super::signature;
use crate::VerifyError;
use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY, UnparsedPublicKey,
};
use lh_wire::{Mpint, Reader, WireError};

/// Decoded key of a supported type.
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
    /// A type that this build cannot verify.
    Other,
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

    /// Returns the short name that OpenSSH's messages use; `None` for unknown types.
    pub(super) const fn display_type(&self) -> Option<&'static str> {
        Some(match self {
            Self::Ed25519(_) => "ED25519",
            Self::MlDsaEd25519(_) => "MLDSA44-ED25519",
            Self::Ecdsa(..) => "ECDSA",
            Self::Rsa { .. } => "RSA",
            Self::SkEd25519 { .. } => "ED25519-SK",
            Self::SkEcdsa { .. } => "ECDSA-SK",
            Self::Other => return None,
        })
    }

    /// Returns the size that OpenSSH shows: bits of the modulus or field; 0 for unknown types.
    pub(super) fn bits(&self) -> usize {
        match self {
            Self::Ed25519(_) | Self::SkEd25519 { .. } | Self::SkEcdsa { .. } => 256,
            Self::MlDsaEd25519(_) => 512,
            Self::Ecdsa(curve, _) => curve.bits(),
            Self::Rsa { n, .. } => Mpint::from_magnitude(n).bits(),
            Self::Other => 0,
        }
    }

    /// Returns the signature algorithms of a plain key, best first. In a FIPS build these are none for
    /// composite keys and for RSA below 2048 bits (NIST SP 800-131A), and RSA never signs with SHA-1.
    pub(super) fn signature_algorithms(&self) -> &'static [&'static str] {
        match self {
            Self::MlDsaEd25519(_) | Self::Rsa { .. } if !self.is_built() => &[],
            Self::Rsa { .. } if crate::FIPS => &[RSA_SHA2_512, RSA_SHA2_256],
            Self::Ed25519(_) => &[ED25519],
            Self::MlDsaEd25519(_) => &[MLDSA44_ED25519],
            Self::Ecdsa(Curve::P256, _) => &[ECDSA_P256],
            Self::Ecdsa(Curve::P384, _) => &[ECDSA_P384],
            Self::Ecdsa(Curve::P521, _) => &[ECDSA_P521],
            Self::Rsa { .. } => &[RSA_SHA2_512, RSA_SHA2_256, SSH_RSA],
            Self::SkEd25519 { .. } => &[SK_ED25519],
            Self::SkEcdsa { .. } => &[SK_ECDSA],
            Self::Other => &[],
        }
    }

    /// Returns the signature algorithms of a certified key, best first.
    pub(super) fn certificate_algorithms(&self) -> &'static [&'static str] {
        match self {
            Self::MlDsaEd25519(_) | Self::Rsa { .. } if !self.is_built() => &[],
            Self::Rsa { .. } if crate::FIPS => &[RSA_SHA2_512_CERT, RSA_SHA2_256_CERT],
            Self::Ed25519(_) => &[ED25519_CERT],
            Self::MlDsaEd25519(_) => &[MLDSA44_ED25519_CERT],
            Self::Ecdsa(Curve::P256, _) => &[ECDSA_P256_CERT],
            Self::Ecdsa(Curve::P384, _) => &[ECDSA_P384_CERT],
            Self::Ecdsa(Curve::P521, _) => &[ECDSA_P521_CERT],
            Self::Rsa { .. } => &[RSA_SHA2_512_CERT, RSA_SHA2_256_CERT, SSH_RSA_CERT],
            Self::SkEd25519 { .. } => &[SK_ED25519_CERT],
            Self::SkEcdsa { .. } => &[SK_ECDSA_CERT],
            Self::Other => &[],
        }
    }

    /// Returns true when this build signs and verifies with such a key.
    pub(super) fn is_built(&self) -> bool {
        match self {
            Self::MlDsaEd25519(_) => !crate::FIPS,
            Self::Rsa { n, .. } => !crate::FIPS || Mpint::from_magnitude(n).bits() >= 2048,
            _ => true,
        }
    }

    /// Verifies the `signature` of a blob over `data`; `rest` is what follows it in the blob. Returns the
    /// statement of a security key about the user, `None` for other keys. `algorithm` is a plain name.
    pub(super) fn verify(
        &self,
        algorithm: &str,
        data: &[u8],
        signature: &[u8],
        rest: Reader<'_>,
    ) -> Result<Option<Attested>, VerifyError> {
        match self {
            Self::SkEd25519 { point, application } => {
                let (signed, attested) = security_key::signed_data(application, data, rest)?;
                return verify_ed25519(point, &signed, signature).map(|()| Some(attested));
            }
            Self::SkEcdsa { point, application } => {
                let (signed, attested) = security_key::signed_data(application, data, rest)?;
                return verify_ecdsa(Curve::P256, point, &signed, signature).map(|()| Some(attested));
            }
            _ => {}
        }
        rest.finish().map_err(|_| VerifyError::Malformed { why: "trailing bytes" })?;
        match self {
            Self::Ed25519(point) => verify_ed25519(point, data, signature),
            Self::MlDsaEd25519(key) => composite::verify(key, data, signature),
            Self::Ecdsa(curve, point) => verify_ecdsa(*curve, point, data, signature),
            Self::Rsa { e, n } => verify_rsa(algorithm, e, n, data, signature),
            _ => Err(VerifyError::WrongAlgorithm),
        }
        .map(|()| None)
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
/// (`RequiredRSASize`), see [`PublicKey::bits`](crate::PublicKey::bits).
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
