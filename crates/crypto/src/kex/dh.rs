//! Arithmetic of finite-field Diffie-Hellman (RFC 4253 section 8, RFC 4419, RFC 8268).

use super::groups::{DhGroup, GROUP_BITS};
use crate::{KexError, Random, SystemRandom};
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use zeroize::{Zeroize, Zeroizing};

/// Length of the secret exponent, bits: twice the strength of the strongest key derived from the secret, as
/// RFC 4419 section 6.2 requires. An exponent as long as `p` would be no harder to find and 16 times slower.
const EXPONENT_BITS: u32 = 512;

pub(super) struct Key {
    params: BoxedMontyParams,
    /// `p - 1`, big-endian; public values are strictly between 1 and this value.
    p_minus_1: Vec<u8>,
    exponent: Zeroizing<BoxedUint>,
    public: Vec<u8>,
}

impl Key {
    /// Generates a key in a negotiated group.
    pub(super) fn generate(group: &DhGroup) -> Result<Self, KexError> {
        if !GROUP_BITS.contains(&group.bits()) {
            return Err(KexError::BadGroup { why: "size out of range" });
        }
        Self::generate_in_fixed(group)
    }

    /// Generates a key in the group that the method's name specifies, regardless of its size.
    pub(super) fn generate_in_fixed(group: &DhGroup) -> Result<Self, KexError> {
        let mut p_minus_1 = group.p.clone();
        match p_minus_1.last_mut() {
            Some(last) if *last & 1 == 1 => *last -= 1,
            _ => return Err(KexError::BadGroup { why: "modulus is even" }),
        }
        if !in_range(&group.g, &p_minus_1) {
            return Err(KexError::BadGroup { why: "generator out of range" });
        }
        let p = BoxedUint::from_be_slice_vartime(&group.p);
        let p = Option::<Odd<BoxedUint>>::from(p.to_odd())
            .ok_or(KexError::BadGroup { why: "modulus is even" })?;
        let params = BoxedMontyParams::new_vartime(p);

        let mut random = Zeroizing::new([0; (EXPONENT_BITS / 8) as usize]);
        SystemRandom.fill(&mut random[..]);
        let exponent = Zeroizing::new(BoxedUint::from_be_slice_truncated(&random[..], EXPONENT_BITS));
        let public = power(&group.g, &exponent, &params);
        // A power of 0, 1 or p-1 never occurs in practice, unless the group is malicious.
        let public = lh_wire::Mpint::from_magnitude(&public).magnitude().to_vec();
        if !in_range(&public, &p_minus_1) {
            return Err(KexError::BadGroup { why: "generator of a tiny subgroup" });
        }
        Ok(Self { params, p_minus_1, exponent, public })
    }

    pub(super) fn public(&self) -> &[u8] {
        &self.public
    }

    pub(super) fn agree(&self, peer_public: &[u8]) -> Result<Zeroizing<Vec<u8>>, KexError> {
        let peer_public = lh_wire::Mpint::from_magnitude(peer_public).magnitude();
        if !in_range(peer_public, &self.p_minus_1) {
            return Err(KexError::BadPublicValue { why: "out of range" });
        }
        let secret = power(peer_public, &self.exponent, &self.params);
        // With a safe prime, only 1 and p-1 generate tiny subgroups; with another modulus the secret reveals
        // it.
        if secret.iter().rev().skip(1).all(|byte| *byte == 0) && secret.last().is_none_or(|last| *last <= 1) {
            return Err(KexError::BadPublicValue { why: "degenerate secret" });
        }
        Ok(secret)
    }
}

/// Computes `base ^ exponent mod p` in time that depends only on the sizes.
fn power(base: &[u8], exponent: &BoxedUint, params: &BoxedMontyParams) -> Zeroizing<Vec<u8>> {
    let base = BoxedUint::from_be_slice_truncated(base, params.bits_precision());
    let mut result = BoxedMontyForm::new(base, params).pow_bounded_exp(exponent, EXPONENT_BITS);
    let retrieved = Zeroizing::new(result.retrieve());
    result.zeroize();
    Zeroizing::new(retrieved.to_be_bytes().into_vec())
}

/// Returns true when `1 < value < p - 1`, for public, big-endian values without leading zeros.
fn in_range(value: &[u8], p_minus_1: &[u8]) -> bool {
    let more_than_one = match value {
        [] => false,
        [only] => *only > 1,
        _ => true,
    };
    more_than_one && (value.len(), value) < (p_minus_1.len(), p_minus_1)
}
