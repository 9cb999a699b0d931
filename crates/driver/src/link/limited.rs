//! The rate limits of a link.

use std::time::Duration;

use super::Link;
use crate::input_limit::InputLimit;
use crate::shared_rate::SharedRate;

impl Link {
    /// Limits what is read.
    pub const fn limit_input(&mut self, limit: InputLimit) {
        self.limits.set_input(limit);
    }

    /// Limits what is read and written by rates that this link shares with others.
    pub fn share_rates(&mut self, input: Option<SharedRate>, output: Option<SharedRate>) {
        self.limits.set_shared(input, output);
    }

    /// Bytes that the limits of what is read let through in this time; `None` without a limit.
    pub(crate) fn readable_in(&self, time: Duration) -> Option<u64> {
        self.limits.readable_in(time)
    }

    /// True while a limit hides whether the peer is silent: this end does not read, or what it asks the peer
    /// waits behind other output, of which all that was written has arrived.
    pub(crate) fn is_held_back(&self) -> bool {
        self.limits.pauses_reading() || self.limits.writes_from().is_some() && self.stream.has_arrived()
    }
}
