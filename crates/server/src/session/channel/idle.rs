//! Channels that carry nothing (`ChannelTimeout`).

use std::time::{Duration, Instant};

/// How long the channel may carry nothing, and since when it has not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Idle {
    pub(super) limit: Duration,
    pub(super) since: Instant,
}

impl Idle {
    /// When the channel is to be closed.
    pub(super) fn over(self) -> Option<Instant> {
        self.since.checked_add(self.limit)
    }
}
