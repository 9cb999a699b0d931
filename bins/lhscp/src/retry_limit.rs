//! Flags about lost connections.

use std::time::Duration;

/// When to give up connecting again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryLimit {
    /// After this many attempts in a row, for a copy that has begun (`--retries`).
    Times(u32),
    /// After this time without progress, counted from the first attempt (`--retry-for`). Time with a
    /// connection does not count.
    For(Duration),
}

impl RetryLimit {
    /// Returns whether the copy also waits for a host that it cannot reach at first.
    pub(crate) const fn is_unattended(self) -> bool {
        matches!(self, Self::For(_))
    }
}
