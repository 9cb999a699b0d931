//! Randomness as an argument.

/// Where random bytes come from. The protocol crates take this as an argument so that tests can replay them.
///
/// Ephemeral and long-lived private keys are always made from the system's generator, whatever is passed
/// elsewhere: a replayed key must not be possible by accident.
pub trait Random {
    /// Fills `out`.
    fn fill(&mut self, out: &mut [u8]);
}

/// The library's generator, seeded by the kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    /// # Panics
    /// If the system has no randomness to give: going on with predictable bytes would be worse.
    fn fill(&mut self, out: &mut [u8]) {
        assert!(aws_lc_rs::rand::fill(out).is_ok(), "the system's random generator failed");
    }
}
