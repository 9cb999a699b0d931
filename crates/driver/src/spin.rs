//! Looking again before sleeping.
//!
//! Between two ends of a fast path each waits for the other many thousand times a second, mostly for some microseconds.
//! Falling asleep and being woken costs more than that, above all on virtual machines, where an idle core leaves the
//! guest, and part of it is charged to whoever wakes. So in the middle of bulk, and only where the last wait was a short one,
//! the loop asks again for a while, giving the core away in between to whoever has something to do.
//!
//! A path that is slower than that sees waits that are too long, and the loop sleeps as ever.

use std::num::NonZero;
use std::time::{Duration, Instant};

/// How long is asked again. Longer than most pauses between two ends that both work, shorter than what a sleep and
/// its end cost where they cost most.
const LONGEST: Duration = Duration::from_micros(60);
/// A wait that ended sooner promises that the next one is short; waking up from a sleep is part of its length.
const SHORT: Duration = Duration::from_micros(150);
/// Bytes moved since the last wait that make it a wait in the middle of bulk.
const BULK: u64 = 16 << 10;

/// Decides whether a wait begins with asking again.
#[derive(Debug)]
pub(crate) struct Spin {
    /// There is more than one core to run on: with one, whoever is waited for cannot run meanwhile.
    possible: Option<bool>,
    /// Bytes moved when the last wait began.
    moved: u64,
    /// The last wait in the middle of bulk was a short one.
    promising: bool,
    /// Time spent asking, at most.
    spun: Duration,
}

impl Spin {
    pub(crate) const fn new() -> Self {
        Self { possible: None, moved: 0, promising: false, spun: Duration::ZERO }
    }

    /// A wait begins; `moved`: bytes so far, both ways. Until when it should be asked again, if at all.
    pub(crate) fn begin(&mut self, now: Instant, moved: u64) -> Wait {
        let bulk = moved.saturating_sub(self.moved) >= BULK;
        self.moved = moved;
        let possible = *self.possible.get_or_insert_with(|| {
            std::thread::available_parallelism().is_ok_and(|cores| cores > NonZero::<usize>::MIN)
        });
        Wait { began: now, bulk, until: (bulk && possible && self.promising).then(|| now + LONGEST) }
    }

    /// The wait is over.
    pub(crate) fn end(&mut self, wait: &Wait, now: Instant) {
        // What comes between bursts says nothing about them, unless it was long.
        let short = now.saturating_duration_since(wait.began) < SHORT;
        self.promising = short && (wait.bulk || self.promising);
        if wait.until.is_some() {
            self.spun += now.saturating_duration_since(wait.began).min(LONGEST);
        }
    }

    /// How long the loop has asked instead of sleeping: it looks busy and has nothing to do.
    pub(crate) const fn spun(&self) -> Duration {
        self.spun
    }
}

/// One wait.
#[derive(Debug)]
pub(crate) struct Wait {
    began: Instant,
    bulk: bool,
    until: Option<Instant>,
}

impl Wait {
    /// Asks `ready` again and again, for as long as that is worth it; true when it said yes.
    pub(crate) fn spin(&self, mut ready: impl FnMut() -> bool) -> bool {
        let Some(until) = self.until else { return false };
        loop {
            if ready() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spin() -> Spin {
        Spin { possible: Some(true), ..Spin::new() }
    }

    #[test]
    fn only_short_waits_within_bulk_are_spun_through() {
        let (mut spin, start) = (spin(), Instant::now());
        let mut moved = 0;
        let mut wait = |bytes: u64, lasted: u64| {
            moved += bytes;
            let wait = spin.begin(start, moved);
            spin.end(&wait, start + Duration::from_micros(lasted));
            wait.until.is_some()
        };
        assert!(!wait(1 << 20, 40), "nothing is known yet");
        assert!(wait(1 << 20, 40));
        assert!(wait(1 << 20, 900), "it was promising");
        assert!(!wait(1 << 20, 40), "the last one was long");
        assert!(wait(1 << 20, 40));
        assert!(!wait(100, 40), "a keystroke is not bulk");
        assert!(wait(1 << 20, 40), "and does not end it");
        assert!(!wait(100, 5000));
        assert!(!wait(1 << 20, 40));
        assert_eq!(spin.spun(), Duration::from_micros(3 * 40) + LONGEST);
    }

    #[test]
    fn one_core_is_never_kept_from_whoever_is_waited_for() {
        let (mut spin, start) = (Spin { possible: Some(false), ..Spin::new() }, Instant::now());
        for moved in 1..9 {
            let wait = spin.begin(start, moved << 20);
            assert!(!wait.spin(|| unreachable!()));
            spin.end(&wait, start);
        }
    }

    #[test]
    fn asking_ends_with_a_yes_and_otherwise_soon() {
        let (mut spin, start) = (spin(), Instant::now());
        let first = spin.begin(start, 1 << 20);
        spin.end(&first, start);
        let mut asked = 0;
        let wait = spin.begin(Instant::now() + Duration::from_secs(3600), 2 << 20);
        assert!(wait.spin(|| {
            asked += 1;
            asked == 3
        }));
        assert_eq!(asked, 3);
        let wait = spin.begin(Instant::now(), 3 << 20);
        assert!(!wait.spin(|| false), "it gives up");
    }
}
