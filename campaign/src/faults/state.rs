//! Counts of a round, and the state that rounds share.

use std::collections::BTreeMap;
use std::time::Duration;

use lh_testkit::Seeded;

use super::case::Case;
use super::hosts::{Peer, Way};
use super::trees::Shape;

/// Result of a round.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    /// Number of faults that hit a copy.
    pub(crate) hits: u64,
    /// Number of faults that came after the copy was complete.
    pub(crate) late: u64,
}

/// State that rounds share.
pub(crate) struct State {
    /// Durations of copies, by direction, shape and peer.
    pub(super) times: BTreeMap<(Way, Shape, Peer), Duration>,
    /// Longest duration of a stop or an outage.
    pub(super) timeout: Duration,
}

/// Assumed time of a copy before one was measured.
const FIRST_GUESS: Duration = Duration::from_millis(400);

impl State {
    /// A random moment of a copy like this one.
    pub(super) fn moment(&self, case: &Case<'_>, random: &mut Seeded) -> Duration {
        let whole = self.times.get(&(case.way, case.shape, case.peer)).copied().unwrap_or(FIRST_GUESS);
        whole.mul_f64(random.below(1000) as f64 / 1000.0)
    }

    /// Records the time of a complete copy.
    pub(super) fn took(&mut self, case: &Case<'_>, time: Duration) {
        self.times.insert((case.way, case.shape, case.peer), time);
    }

    /// Records that a copy was not complete at the last chosen moment, so that later moments can be chosen.
    pub(super) fn lasts_longer(&mut self, case: &Case<'_>) {
        let time = self.times.entry((case.way, case.shape, case.peer)).or_insert(FIRST_GUESS);
        *time = time.mul_f64(1.02);
    }

    /// Duration of a stop: some seconds, and occasionally the longest.
    pub(super) fn pause(&self, random: &mut Seeded) -> Duration {
        let seconds = Duration::from_millis(500 + random.below(3000) as u64);
        let longest = random.below(4) == 0;
        if longest { self.timeout.max(seconds) } else { seconds.min(self.timeout) }
    }
}
