//! Primality test for large numbers: for screening moduli of Diffie-Hellman group exchange (RFC 4419).

use crate::Random;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use lh_wire::Mpint;

/// Longest tested number, bytes: twice the largest group in use.
const MAX_LEN: usize = 4096;

/// Runs the Miller-Rabin test with `rounds` random bases. A composite number passes each round with a
/// probability of at most 1/4, and in practice far less. `magnitude` is big-endian and public: the running
/// time depends on it.
///
/// Returns false for numbers of less than 4 bytes or more than 4096, which no group uses.
pub fn is_probable_prime(magnitude: &[u8], rounds: u32, random: &mut dyn Random) -> bool {
    let magnitude = Mpint::from_magnitude(magnitude).magnitude();
    if !(4..=MAX_LEN).contains(&magnitude.len()) {
        return false;
    }
    let Some(modulus) = Option::<Odd<BoxedUint>>::from(BoxedUint::from_be_slice_vartime(magnitude).to_odd())
    else {
        return false;
    };
    let params = BoxedMontyParams::new_vartime(modulus);
    let bits = params.bits_precision();
    // n - 1 is even: d times 2^s with an odd d.
    let mut less_one = magnitude.to_vec();
    if let Some(last) = less_one.last_mut() {
        *last -= 1;
    }
    let s: u32 = trailing_zeros(&less_one);
    let d = BoxedUint::from_be_slice_truncated(&less_one, bits) >> s;
    let is_less_one = |value: &BoxedMontyForm| {
        Mpint::from_magnitude(&value.retrieve().to_be_bytes()).magnitude() == less_one
    };
    let is_one =
        |value: &BoxedMontyForm| Mpint::from_magnitude(&value.retrieve().to_be_bytes()).magnitude() == [1];
    (0..rounds).all(|_| {
        // One byte shorter than the number, so less than it. Setting bit 1 excludes 0 and 1.
        let mut base = vec![0; magnitude.len() - 1];
        random.fill(&mut base);
        if let Some(last) = base.last_mut() {
            *last |= 2;
        }
        let base = BoxedUint::from_be_slice_truncated(&base, bits);
        let mut x = BoxedMontyForm::new(base, &params).pow(&d);
        if is_one(&x) || is_less_one(&x) {
            return true;
        }
        (1..s).any(|_| {
            x = x.square();
            is_less_one(&x)
        })
    })
}

fn trailing_zeros(magnitude: &[u8]) -> u32 {
    let mut zeros = 0;
    for byte in magnitude.iter().rev() {
        zeros += byte.trailing_zeros();
        if *byte != 0 {
            break;
        }
    }
    zeros
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DhGroup, SystemRandom};

    #[test]
    fn primes_pass_and_composites_fail() {
        let prime = |number: u64| is_probable_prime(&number.to_be_bytes(), 20, &mut SystemRandom);
        for number in [4_294_967_291, 4_294_967_311, 18_446_744_073_709_551_557, 1_000_000_007] {
            assert!(prime(number), "{number}");
        }
        // Composites that pass weaker tests: Carmichael numbers and strong pseudoprimes to small bases.
        for number in
            [4_294_967_297, 3_215_031_751, 9_746_347_772_161, 3_825_123_056_546_413_051, 4_294_967_296, 7]
        {
            assert!(!prime(number), "{number}");
        }
        let group = DhGroup::group14();
        assert!(is_probable_prime(&group.p, 2, &mut SystemRandom));
        let mut other = group.p.clone();
        other[100] ^= 1;
        assert!(!is_probable_prime(&other, 2, &mut SystemRandom));
        assert!(!is_probable_prime(&[], 2, &mut SystemRandom));
        assert!(!is_probable_prime(&vec![0xff; 5000], 2, &mut SystemRandom));
    }
}
