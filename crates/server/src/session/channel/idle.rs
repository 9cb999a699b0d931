//! Time limit for idle channels (`ChannelTimeout`).

use std::time::{Duration, Instant};

/// The limit of an idle channel, and the time of its last transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Idle {
    pub(super) limit: Duration,
    pub(super) since: Instant,
}

impl Idle {
    /// Returns the time at which the idle channel must be closed.
    pub(super) fn over(self) -> Option<Instant> {
        self.since.checked_add(self.limit)
    }
}
