//! What the command line says about connections that are lost.

use std::time::Duration;

/// How long it goes on without a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryLimit {
    /// So many attempts in a row, for a copy that had begun (`--retries`).
    Times(u32),
    /// So long without progress, from the first attempt on (`--retry-for`).
    For(Duration),
}

impl RetryLimit {
    /// True for copies that wait for a host from the start.
    pub(crate) const fn is_unattended(self) -> bool {
        matches!(self, Self::For(_))
    }
}
