//! How much to have in flight where the path is short.
//!
//! What is in flight when an end dies is sent again. On a long path that is the price of keeping it full; on a short one a few
//! files keep both ends busy, and more of them would only be lost. So there a small part of all that has been begun
//! is in flight at a time. Large files have their own ways: what has come of them is kept.

use std::time::{Duration, Instant};

use super::Engine;
use crate::Direction;

/// From this round trip on a path is not short. A machine that is busy makes one of some milliseconds out of nothing.
const LONG: Duration = Duration::from_millis(4);

/// What answers must weigh together before they say more than the kernel: on a busy machine some of them take their time. One about
/// a file counts once.
const ENOUGH: u32 = 32;

/// What an answer about a batch weighs.
const WEIGHT_OF_BATCH: u32 = 4;

/// What a batch may take on a short path: there is work in it.
const WORK: Duration = Duration::from_millis(10);

/// One in so many bytes, or files.
const PART: u64 = 32;

/// Bytes that may always be in flight, for each channel.
const LEAST_BYTES: u64 = 128 * 1024;

/// The same for files that go one by one.
const LEAST_FILES: usize = 16;

/// What is known of the path.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Short {
    /// What the connection is said to take, before anything has been answered.
    expected: Option<Duration>,
    /// The quickest answer about a batch.
    answered: Option<Duration>,
    /// How much weight the answers have together.
    weight: u32,
}

impl Short {
    /// A question about one file has been answered.
    pub(super) const fn note_question(&mut self) {
        self.weight = self.weight.saturating_add(1);
    }
}

impl Engine {
    /// The kernel says that the connection takes so long there and back. A tunnel may lead from its other end to somewhere
    /// far: what answers take counts for more.
    pub fn expect_round_trip(&mut self, took: Duration) {
        self.short.expected = Some(took);
    }

    /// A batch that was sent then has been answered.
    pub(super) fn note_answer(&mut self, sent: Instant) {
        let took = self.now.saturating_duration_since(sent);
        self.short.answered = Some(self.short.answered.map_or(took, |quickest| quickest.min(took)));
        self.short.weight = self.short.weight.saturating_add(WEIGHT_OF_BATCH);
    }

    /// True when the path is short, as far as is known. Nothing takes no time at all: then the clock has not moved.
    fn path_is_short(&self) -> bool {
        let within =
            |took: Option<Duration>, most| took.is_some_and(|took| took > Duration::ZERO && took < most);
        let Short { expected, answered, weight } = self.short;
        let likely = within(expected, LONG) && (weight < ENOUGH || within(answered, WORK));
        self.plan.direction != Direction::Relay && (likely || within(self.lanes.round_trip(), LONG))
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
}
