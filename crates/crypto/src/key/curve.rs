//! The NIST curves of `ecdsa-sha2-*` (RFC 5656): their differences in one table.

use super::names;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaSigningAlgorithm, EcdsaVerificationAlgorithm,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    pub(super) const ALL: [Self; 3] = [Self::P256, Self::P384, Self::P521];

    /// Returns the name of the key type, which is also the signature algorithm's, since each curve has its
    /// own hash.
    pub(super) const fn key_type(self) -> &'static str {
        match self {
            Self::P256 => names::ECDSA_P256,
            Self::P384 => names::ECDSA_P384,
            Self::P521 => names::ECDSA_P521,
        }
    }

    /// Returns the curve identifier inside the blob (RFC 5656 section 6.1).
    pub(super) const fn identifier(self) -> &'static str {
        match self {
            Self::P256 => "nistp256",
            Self::P384 => "nistp384",
            Self::P521 => "nistp521",
        }
    }

    /// Returns the content of the curve's object identifier (RFC 5480 section 2.1.1.1).
    pub(super) const fn object_id(self) -> &'static [u8] {
        match self {
            Self::P256 => &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
            Self::P384 => &[0x2b, 0x81, 0x04, 0x00, 0x22],
            Self::P521 => &[0x2b, 0x81, 0x04, 0x00, 0x23],
        }
    }

    pub(super) const fn bits(self) -> usize {
        match self {
            Self::P256 => 256,
            Self::P384 => 384,
            Self::P521 => 521,
        }
    }

    /// Returns the length of a scalar or a coordinate, bytes.
    pub(super) const fn scalar_len(self) -> usize {
        self.bits().div_ceil(8)
    }

    /// Returns the length of an uncompressed point, bytes.
    pub(super) const fn point_len(self) -> usize {
        1 + 2 * self.scalar_len()
    }

    pub(super) fn by_key_type(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.key_type() == name)
    }

    pub(super) const fn verification(self) -> &'static EcdsaVerificationAlgorithm {
        match self {
            Self::P256 => &ECDSA_P256_SHA256_FIXED,
            Self::P384 => &ECDSA_P384_SHA384_FIXED,
            Self::P521 => &ECDSA_P521_SHA512_FIXED,
        }
    }

    pub(super) const fn signing(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            Self::P256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
            Self::P384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
            Self::P521 => &ECDSA_P521_SHA512_FIXED_SIGNING,
        }
    }
}

/// Appends `magnitude` to `out` as exactly `len` big-endian bytes; returns `None` when it is longer.
pub(super) fn put_padded(out: &mut Vec<u8>, magnitude: &[u8], len: usize) -> Option<()> {
    let zeros = len.checked_sub(magnitude.len())?;
    out.resize(out.len() + zeros, 0);
    out.extend_from_slice(magnitude);
    Some(())
}
