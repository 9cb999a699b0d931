//! Finite-field Diffie-Hellman groups.

use crate::Random;

/// A Diffie-Hellman group: big-endian magnitudes without leading zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhGroup {
    /// The safe prime.
    pub p: Vec<u8>,
    /// The generator.
    pub g: Vec<u8>,
}

impl DhGroup {
    /// RFC 3526 group 14, 2048 bits.
    pub fn group14() -> Self {
        Self { p: Vec::new(), g: vec![2] }
    }

    /// RFC 3526 group 16, 4096 bits.
    pub fn group16() -> Self {
        Self { p: Vec::new(), g: vec![2] }
    }

    /// RFC 3526 group 18, 8192 bits.
    pub fn group18() -> Self {
        Self { p: Vec::new(), g: vec![2] }
    }

    /// The server's choice for a group exchange request of `min`, preferred `n` and `max` bits (RFC 4419
    /// section 3), from the text of a moduli file or, without one or without a fitting line, a fixed group.
    ///
    /// `None` when no group of an acceptable size (at least 2048 bits) lies within `min..=max`.
    pub fn choose(
        _min: u32,
        _n: u32,
        _max: u32,
        _moduli: Option<&str>,
        _rng: &mut dyn Random,
    ) -> Option<Self> {
        None
    }
}
