//! Decides how much to have in flight on a short path.
//!
//! What is in flight when an end dies is sent again. On a long path that is the price of keeping it full; on
//! a short one a few files keep both ends busy, and more of them would only be lost. So there a small part of
//! all that has been begun is in flight at a time. Large files have their own ways: what has come of them is
//! kept.

use std::time::Duration;

/// From this round trip on a path is not short. A machine that is busy makes one of some milliseconds out of
/// nothing.
const LONG: Duration = Duration::from_millis(4);

/// What answers must weigh together before they say more than the kernel: on a busy machine some of them take
/// their time. One about a file counts once.
const ENOUGH: u32 = 32;

/// Weight of an answer about a batch.
const WEIGHT_OF_BATCH: u32 = 4;

/// Time that a batch may take on a short path: the server has to work for it.
const WORK: Duration = Duration::from_millis(10);

/// Denominator of the part of the bytes, or files, that may be in flight.
const PART: u64 = 32;

/// Bytes that may always be in flight, for each channel.
const LEAST_BYTES: u64 = 128 * 1024;

/// Files that may always be open, where they go one by one.
const LEAST_FILES: usize = 16;

/// Measurements of the path.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ShortPath {
    /// Round trip that the kernel reports, used until requests have been answered.
    expected: Option<Duration>,
    /// The quickest answer about one file.
    question: Option<Duration>,
    /// The quickest answer about a batch.
    batch: Option<Duration>,
    /// Sum of the answers' weights.
    weight: u32,
}

fn quickest(so_far: Option<Duration>, took: Duration) -> Option<Duration> {
    Some(so_far.map_or(took, |quickest| quickest.min(took)))
}

impl ShortPath {
    /// A tunnel may lead from the connection's other end to somewhere far: what answers take counts for more.
    pub(super) const fn expect_round_trip(&mut self, took: Duration) {
        self.expected = Some(took);
    }

    pub(super) fn question_took(&mut self, took: Duration) {
        self.question = quickest(self.question, took);
        self.weight = self.weight.saturating_add(1);
    }

    pub(super) fn batch_took(&mut self, took: Duration) {
        self.batch = quickest(self.batch, took);
        self.weight = self.weight.saturating_add(WEIGHT_OF_BATCH);
    }

    /// Returns true when the path is short, as far as is known. Nothing takes no time at all: then the clock
    /// has not moved.
    fn is_short(&self) -> bool {
        let within =
            |took: Option<Duration>, most| took.is_some_and(|took| took > Duration::ZERO && took < most);
        let likely = within(self.expected, LONG) && (self.weight < ENOUGH || within(self.batch, WORK));
        likely || within(self.question, LONG)
    }

    /// Bytes of small files that are worth having in flight.
    pub(super) fn worth_in_flight(&self, found: u64, channels: usize) -> u64 {
        if !self.is_short() {
            return u64::MAX;
        }
        (found / PART).max(LEAST_BYTES * channels as u64)
    }

    /// Files that are worth having open.
    pub(super) fn worth_open(&self, found: u64, channels: usize) -> usize {
        if !self.is_short() {
            return usize::MAX;
        }
        let part = usize::try_from(found / PART).unwrap_or(usize::MAX);
        part.max(LEAST_FILES * channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(200);
    const FAR: Duration = Duration::from_millis(50);

    #[test]
    fn a_part_of_what_was_found_is_worth_it_on_a_short_path_only() {
        let mut path = ShortPath::default();
        assert_eq!((path.worth_in_flight(1 << 30, 1), path.worth_open(1 << 20, 1)), (u64::MAX, usize::MAX));
        path.expect_round_trip(SHORT);
        assert_eq!((path.worth_in_flight(1 << 30, 1), path.worth_open(1 << 20, 1)), (1 << 25, 1 << 15));
        assert_eq!((path.worth_in_flight(0, 3), path.worth_open(0, 3)), (3 * LEAST_BYTES, 3 * LEAST_FILES));
    }

    #[test]
    fn answers_say_more_than_the_kernel_once_there_are_enough() {
        let mut path = ShortPath::default();
        path.expect_round_trip(SHORT);
        for _ in 0..ENOUGH / WEIGHT_OF_BATCH {
            assert!(path.is_short());
            path.batch_took(FAR);
        }
        assert!(!path.is_short(), "a tunnel leads on from there");
        path.batch_took(WORK / 2);
        assert!(path.is_short());
    }

    #[test]
    fn a_quick_answer_about_a_file_shows_a_short_path() {
        let mut path = ShortPath::default();
        path.question_took(Duration::ZERO);
        assert!(!path.is_short(), "the clock has not moved");
        let mut path = ShortPath::default();
        path.question_took(FAR);
        assert!(!path.is_short());
        path.question_took(SHORT);
        assert!(path.is_short());
    }
}
