//! Busy polling before a sleep.
//!
//! Two ends of a fast path wait for each other many thousand times a second, mostly for some microseconds. A
//! sleep and its wake-up cost more than that, above all on virtual machines, where an idle core leaves the
//! guest. Part of that cost falls on the thread that wakes the other. So in the middle of bulk, and only
//! after a short wait, the loop polls again for a while, and yields the core between polls.
//!
//! On a slower path the waits are longer, and the loop sleeps at once.

use std::num::NonZero;
use std::time::{Duration, Instant};

/// Upper limit of one spin. It is longer than most pauses between two busy ends, and shorter than the cost of
/// a sleep and its wake-up where they cost most.
const LONGEST: Duration = Duration::from_micros(60);
/// Length below which a wait predicts that the next one is short, too. It includes the wake-up from a sleep.
const SHORT: Duration = Duration::from_micros(150);
/// Bytes moved since the last wait that put it in the middle of bulk.
const BULK: u64 = 16 << 10;

/// Decides whether a wait begins with polling.
#[derive(Debug)]
pub(crate) struct Spin {
    /// There is more than one core: on a single one, the awaited process could not run meanwhile.
    possible: Option<bool>,
    /// Bytes moved when the last wait began.
    moved: u64,
    /// The last wait in the middle of bulk was short.
    promising: bool,
    /// Upper bound of the time spent polling.
    spun: Duration,
}

impl Spin {
    pub(crate) const fn new() -> Self {
        Self { possible: None, moved: 0, promising: false, spun: Duration::ZERO }
    }

    /// Begins a wait; `moved`: bytes so far, both directions. The result holds the time until which to poll,
    /// if at all.
    pub(crate) fn begin(&mut self, now: Instant, moved: u64) -> Wait {
        let bulk = moved.saturating_sub(self.moved) >= BULK;
        self.moved = moved;
        // The number of cores comes from five files, which a short connection does not pay for.
        let pays = bulk && self.promising && self.has_cores();
        Wait { began: now, bulk, until: pays.then(|| now + LONGEST) }
    }

    fn has_cores(&mut self) -> bool {
        *self.possible.get_or_insert_with(|| {
            std::thread::available_parallelism().is_ok_and(|cores| cores > NonZero::<usize>::MIN)
        })
    }

    /// Ends the wait.
    pub(crate) fn end(&mut self, wait: &Wait, now: Instant) {
        // A wait between bursts says nothing about them, unless it was long.
        let short = now.saturating_duration_since(wait.began) < SHORT;
        self.promising = short && (wait.bulk || self.promising);
        if wait.until.is_some() {
            self.spun += now.saturating_duration_since(wait.began).min(LONGEST);
        }
    }

    /// Time spent polling instead of sleeping, which would look like CPU use.
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
    /// Calls `ready` again and again while that pays off; true when it returned true.
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
        assert!(!wait(1 << 20, 40), "no wait has been measured");
        assert!(wait(1 << 20, 40));
        assert!(wait(1 << 20, 900), "the last wait was short");
        assert!(!wait(1 << 20, 40), "the last wait was long");
        assert!(wait(1 << 20, 40));
        assert!(!wait(100, 40), "a keystroke is not bulk");
        assert!(wait(1 << 20, 40), "and does not end bulk");
        assert!(!wait(100, 5000));
        assert!(!wait(1 << 20, 40));
        assert_eq!(spin.spun(), Duration::from_micros(3 * 40) + LONGEST);
    }

    #[test]
    fn single_core_never_spins() {
        let (mut spin, start) = (Spin { possible: Some(false), ..Spin::new() }, Instant::now());
        for moved in 1..9 {
            let wait = spin.begin(start, moved << 20);
            assert!(!wait.spin(|| unreachable!()));
            spin.end(&wait, start);
        }
    }

    #[test]
    fn spin_ends_on_readiness_or_timeout() {
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
        assert!(!wait.spin(|| false), "the spin must time out");
    }
}
