//! Randomness as an argument, for reproducible tests.

/// Source of random bytes. The protocol crates take it as an argument so that tests can replay them.
///
/// Ephemeral and long-lived private keys always come from the system's generator, regardless of this
/// argument: a replayed key must not be possible by accident.
pub trait Random {
    /// Fills `out`.
    fn fill(&mut self, out: &mut [u8]);
}

/// The crypto library's generator, seeded by the kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    /// # Panics
    /// Panics if the system's generator fails: continuing with predictable bytes would be worse.
    fn fill(&mut self, out: &mut [u8]) {
        assert!(aws_lc_rs::rand::fill(out).is_ok(), "the system's random generator failed");
    }
}
