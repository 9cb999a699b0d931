//! The first level of UMAC: NH, the sum of products that reads every byte of a message (RFC 4418 section
//! 5.1).
//!
//! For every 32 bytes, eight little-endian words m0 to m7, it adds (m0+k0)(m4+k4) + (m1+k1)(m5+k5) +
//! (m2+k2)(m6+k6) + (m3+k3)(m7+k7). The inner sums are modulo 2^32 and the outer ones modulo 2^64. The next
//! column does the same with the key shifted by four words.
//!
//! x86-64's `pmuludq` multiplies the low halves of 64-bit lanes and ignores the high halves. So messages are
//! read as 64-bit words that hold an even-numbered word below an odd-numbered one, and keys are stored as
//! even and odd words in 64-bit lanes. Adding an even key word to such a message word leaves the correct sum
//! in the low half. The mask before the multiplication clears the high half. The odd words are shifted down
//! first. Two columns fill two vectors of two lanes, and no lane is ever moved.
//!
//! Compiled for the baseline, this equals a loop written by hand. With AVX2 the compiler needs another order
//! of the message and makes the sum 25 % faster. That is 10 % of a suite, because counter mode takes most of
//! the time, and did not justify a second version selected at run time.

use super::sizes::CHUNK_LEN;
use zeroize::ZeroizeOnDrop;

/// Key length for four columns, bytes: a chunk's key plus four words per further column.
pub(super) const KEY_LEN: usize = CHUNK_LEN + 3 * 16;

/// Bytes of message per step.
const STEP_LEN: usize = 32;

/// Lanes (even or odd) by which the keys advance per step, and per pair of columns.
const LANES: usize = 4;

/// Lanes (even or odd) that a step reads for two columns.
const WINDOW: usize = 6;

/// Mask of the low 32 bits of a lane.
const LOW: u64 = 0xffff_ffff;

/// The key's even and odd words.
#[derive(ZeroizeOnDrop)]
pub(super) struct NhKey {
    even: [u64; KEY_LEN / 8],
    odd: [u64; KEY_LEN / 8],
}

impl NhKey {
    pub(super) fn new(key: &[u8; KEY_LEN]) -> Self {
        let mut this = Self { even: [0; KEY_LEN / 8], odd: [0; KEY_LEN / 8] };
        for ((even, odd), bytes) in this.even.iter_mut().zip(&mut this.odd).zip(key.as_chunks().0) {
            let pair = u64::from_be_bytes(*bytes);
            *even = pair >> 32;
            *odd = pair & LOW;
        }
        this
    }

    /// Returns the sums of one pair of columns over a chunk, which is padded with zeros to whole steps, at
    /// least one.
    ///
    /// The chunk has at most [`CHUNK_LEN`] bytes, and `pair` is 0 or 1.
    #[inline]
    pub(super) fn pair(&self, pair: usize, chunk: &[u8]) -> [u64; 2] {
        let window =
            |key| <[u64]>::get(key, LANES * pair..).unwrap_or_default().windows(WINDOW).step_by(LANES);
        let mut keys = window(&self.even).zip(window(&self.odd));
        let mut sums = [0; LANES];
        let (steps, rest) = chunk.as_chunks::<STEP_LEN>();
        for (step, (even, odd)) in steps.iter().zip(&mut keys) {
            add_products(&mut sums, even, odd, step);
        }
        if (!rest.is_empty() || steps.is_empty())
            && let Some((even, odd)) = keys.next()
        {
            let mut step = [0; STEP_LEN];
            step.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            add_products(&mut sums, even, odd, &step);
        }
        [sums[0].wrapping_add(sums[1]), sums[2].wrapping_add(sums[3])]
    }
}

/// Processes one step of two columns: the first in lanes 0 and 1, the second in lanes 2 and 3.
#[inline(always)]
fn add_products(sums: &mut [u64; LANES], even: &[u64], odd: &[u64], step: &[u8; STEP_LEN]) {
    let (Some(even), Some(odd)) = (even.first_chunk::<WINDOW>(), odd.first_chunk::<WINDOW>()) else { return };
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(step.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    for lane in 0..LANES {
        let left = words[lane % 2].wrapping_add(even[lane]) & LOW;
        let right = words[2 + lane % 2].wrapping_add(even[lane + 2]) & LOW;
        sums[lane] = sums[lane].wrapping_add(left.wrapping_mul(right));
    }
    for lane in 0..LANES {
        let left = (words[lane % 2] >> 32).wrapping_add(odd[lane]) & LOW;
        let right = (words[2 + lane % 2] >> 32).wrapping_add(odd[lane + 2]) & LOW;
        sums[lane] = sums[lane].wrapping_add(left.wrapping_mul(right));
    }
}
