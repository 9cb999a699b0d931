//! The third level of UMAC: 64 bits to 32, by an inner product modulo the prime 2^36 - 5 (RFC 4418 section
//! 5.3).

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Length of a column's derived key without the final mask, bytes.
pub(super) const KEY_LEN: usize = 64;

const PRIME: u64 = (1 << 36) - 5;

/// One column's key: the factors of the low four 16-bit words, and the mask that is xored with the sum.
///
/// The RFC's input has 128 bits, but the high half is only used with messages over 16 MiB.
#[derive(Default, Zeroize, ZeroizeOnDrop)]
pub(super) struct InnerProduct {
    factors: [u64; 4],
    mask: u32,
}

impl InnerProduct {
    pub(super) fn new(key: &[u8; KEY_LEN], mask: u32) -> Self {
        let mut this = Self { factors: [0; 4], mask };
        for (factor, bytes) in this.factors.iter_mut().rev().zip(key.as_chunks().0.iter().rev()) {
            *factor = u64::from_be_bytes(*bytes) % PRIME;
        }
        this
    }

    /// Returns the hash of the second level's value.
    pub(super) fn hash(&self, value: u64) -> u32 {
        let words = [value >> 48, value >> 32, value >> 16, value];
        // Four products of at most 52 bits.
        let sum: u64 =
            words.iter().zip(&self.factors).map(|(word, factor)| u64::from(*word as u16) * factor).sum();
        (sum % PRIME) as u32 ^ self.mask
    }
}
