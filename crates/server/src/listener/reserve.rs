//! Connections that a client may lose on its way back to its session without a penalty.

use std::time::{Duration, Instant};

/// Largest number of connections in a reserve. A client makes 123 attempts in the first two minutes after a
/// break: one a second, and three more at first.
pub(super) const RESERVE: u32 = 128;

/// Time after which a reserve has one more connection. Later a client makes one attempt in this time.
const RENEWAL: Duration = Duration::from_secs(5);

/// The number of connections that may end without a login and without a penalty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reserve {
    left: u32,
    /// Time up to which renewals have been added to `left`.
    at: Instant,
}

impl Reserve {
    /// Returns a full reserve.
    pub(super) const fn new(now: Instant) -> Self {
        Self { left: RESERVE, at: now }
    }

    /// Takes one connection from the reserve; returns false when it is empty.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        while self.left < RESERVE && self.at + RENEWAL <= now {
            self.left += 1;
            self.at += RENEWAL;
        }
        if self.left == RESERVE {
            self.at = now;
        }
        let any = self.left > 0;
        self.left = self.left.saturating_sub(1);
        any
    }
}
