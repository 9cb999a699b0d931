//! Flags about lost connections.

use std::time::Duration;

/// When to give up connecting again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryLimit {
    /// After [`USUAL`] attempts in a row, for a copy that has begun.
    Usual,
    /// After this many attempts in a row, for a copy that has begun, or whose server has not answered the
    /// first message (`--retries`).
    Times(u32),
    /// After this time without progress, counted from the first attempt (`--retry-for`). Time with a
    /// connection does not count.
    For(Duration),
}

/// Attempts in a row, without `--retries`.
const USUAL: u32 = 3;

impl RetryLimit {
    /// Number of attempts in a row, where the time does not decide.
    pub(crate) const fn times(self) -> u32 {
        match self {
            Self::Usual => USUAL,
            Self::Times(times) => times,
            Self::For(_) => 0,
        }
    }

    /// Returns whether another attempt follows one whose server did not answer the first message in time.
    pub(crate) const fn retries_silent_servers(self) -> bool {
        !matches!(self, Self::Usual)
    }

    /// Returns whether the copy also waits for a host that it cannot reach at first.
    pub(crate) const fn is_unattended(self) -> bool {
        matches!(self, Self::For(_))
    }
}
