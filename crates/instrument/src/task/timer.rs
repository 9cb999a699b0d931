//! A timer for what is done again and again.

use std::time::{Duration, Instant};

/// Time between two turns, and when the next one is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timer {
    every: Duration,
    pub(super) due: Instant,
}

impl Timer {
    /// A timer whose first turn is due at once.
    pub(super) const fn new(every: Duration, now: Instant) -> Self {
        Self { every, due: now }
    }

    /// Returns whether a turn is due, and sets the time of the next one.
    pub(super) fn fires(&mut self, now: Instant) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.due = now + self.every;
        }
        is_due
    }
}
