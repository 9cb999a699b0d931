//! How much to have in flight where the path is short.
//!
//! What is in flight when an end dies is sent again. On a long path that is the price of keeping it full; on a short one a few
//! files keep both ends busy, and more of them would only be lost. So there a small part of all that has been begun
//! is in flight at a time. Large files have their own ways: what has come of them is kept.

use std::time::{Duration, Instant};

use super::{Engine, Side};
use crate::Direction;

/// From this round trip on a path is not short. A machine that is busy makes one of some milliseconds out of nothing.
const LONG: Duration = Duration::from_millis(4);

/// One in so many bytes, or files.
const PART: u64 = 32;

/// Bytes that may always be in flight, for each channel.
const LEAST_BYTES: u64 = 128 * 1024;

/// The same for files that go one by one.
const LEAST_FILES: usize = 16;

impl Engine {
    /// True when the path has been found to be short. Nothing takes no time at all: then the clock has not moved.
    fn path_is_short(&self) -> bool {
        let short = |rtt: Duration| rtt > Duration::ZERO && rtt < LONG;
        self.plan.direction != Direction::Relay && self.lanes.round_trip().is_some_and(short)
    }

    /// Bytes of small files that are worth having in flight.
    pub(super) fn worth_in_flight(&self) -> u64 {
        if !self.path_is_short() {
            return u64::MAX;
        }
        (self.bytes_found / PART).max(LEAST_BYTES * self.channels_up() as u64)
    }

    /// Files that are worth having open.
    pub(super) fn worth_open(&self) -> usize {
        if !self.path_is_short() {
            return usize::MAX;
        }
        let part = usize::try_from(self.next_file_id / PART).unwrap_or(usize::MAX);
        part.max(LEAST_FILES * self.channels_up())
    }

    /// The first question about the copy has been answered by the end `side`, if it is asked on a connection.
    pub(super) fn note_first_answer(&mut self, side: Side) {
        if self.remote(side).is_some()
            && let Some(asked) = self.first_asked.take()
        {
            self.note_round_trip(side, asked);
        }
    }

    /// The first question about the copy is asked now.
    pub(super) const fn ask_first(&mut self, now: Instant) {
        self.first_asked = Some(now);
    }
}
