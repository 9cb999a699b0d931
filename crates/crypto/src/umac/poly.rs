//! The second level of UMAC: a polynomial over the chunks' words modulo the prime 2^64 - 59 (RFC 4418 section
//! 5.2).

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Length of a column's derived key, bytes. The last 16 are for the polynomial of messages over 16 MiB, which
/// is omitted.
pub(super) const KEY_LEN: usize = 24;

/// Value before the first word.
pub(super) const START: u64 = 1;

/// 2^64 minus the prime.
const OFFSET: u64 = 59;

const PRIME: u64 = OFFSET.wrapping_neg();

/// Words from this value on are escaped: first the marker, then the word minus the offset.
const ESCAPED: u64 = 0xffff_ffff_0000_0000;

/// Bits that a key may have, so that the sums below do not overflow.
const KEY_MASK: u64 = 0x01ff_ffff_01ff_ffff;

/// The point at which one column evaluates the polynomial.
#[derive(Default, Zeroize, ZeroizeOnDrop)]
pub(super) struct Poly(u64);

impl Poly {
    pub(super) fn new(key: &[u8; KEY_LEN]) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *key;
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]) & KEY_MASK)
    }

    /// Processes one more word. Values are reduced to 64 bits; [`finish`] reduces them below the prime.
    ///
    /// Words are secret, so the escape (RFC 4418 section 5.2) is arithmetic and not a branch.
    #[inline]
    pub(super) fn absorb(&self, value: u64, word: u64) -> u64 {
        let escaped = u64::from(word >= ESCAPED).wrapping_neg();
        let marked = self.multiply_add(value, PRIME - 1);
        let value = (marked & escaped) | (value & !escaped);
        self.multiply_add(value, word - (OFFSET & escaped))
    }

    /// Returns key · value + word, reduced modulo the prime except for a final subtraction.
    #[inline]
    fn multiply_add(&self, value: u64, word: u64) -> u64 {
        // Below 2^121 + 2^64: the high half is at most 2^57, and 59 times that is below 2^63.
        let sum = u128::from(self.0) * u128::from(value) + u128::from(word);
        let folded = u128::from(sum as u64) + (sum >> 64) * u128::from(OFFSET);
        // With a carry, the low half is below 2^63, so this does not wrap.
        (folded as u64).wrapping_add((folded >> 64) as u64 * OFFSET)
    }
}

/// Returns the value, reduced below the prime.
pub(super) const fn finish(value: u64) -> u64 {
    let (reduced, below) = value.overflowing_sub(PRIME);
    let keep = (below as u64).wrapping_neg();
    (value & keep) | (reduced & !keep)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `POLY` as in RFC 4418 section 5.2.3.
    fn rfc(key: u64, words: &[u64]) -> u64 {
        let (key, prime) = (u128::from(key), u128::from(PRIME));
        let mut value = 1;
        for &word in words {
            if word >= ESCAPED {
                value = (key * value + prime - 1) % prime;
                value = (key * value + u128::from(word - OFFSET)) % prime;
            } else {
                value = (key * value + u128::from(word)) % prime;
            }
        }
        value as u64
    }

    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            ESCAPED - 3..=ESCAPED + 3,
            PRIME - 3..=u64::MAX,
            any::<u32>().prop_map(|low| ESCAPED + u64::from(low)),
            0..4u64,
        ]
    }

    proptest! {
        #[test]
        fn words_of_every_size_are_hashed_as_in_the_rfc(
            key in prop_oneof![any::<u64>(), Just(u64::MAX), 0..3u64],
            words in proptest::collection::vec(word(), 0..20),
        ) {
            let mut bytes = [0xff; KEY_LEN];
            *bytes.first_chunk_mut().unwrap() = key.to_be_bytes();
            let poly = Poly::new(&bytes);
            let value = words.iter().fold(START, |value, &word| poly.absorb(value, word));
            prop_assert_eq!(finish(value), rfc(key & KEY_MASK, &words));
        }

        #[test]
        fn finish_reduces_any_value(value in word()) {
            prop_assert_eq!(finish(value), (u128::from(value) % u128::from(PRIME)) as u64);
        }
    }
}
