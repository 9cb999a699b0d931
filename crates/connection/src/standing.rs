//! How much of what waits for a sink is of no use.
//!
//! A sink that works in bursts needs something to take when it gets to run, and that comes and goes. What is there at the end of a
//! burst too, time after time, *stands*: the sink would be no slower without it, and it is memory that has to be got,
//! and is cold when its turn comes. It stands because the window is larger than what is under way at the sink's own rate. So the
//! window shrinks by as much (but for a little that is left for a sink that gets faster), by credit that is kept back while
//! there is something to take, and grows again when the sink is seen to wait.

use std::time::{Duration, Instant};

/// Looked at for so long, and so many round trips, at least.
const LOOK: (Duration, u32) = (Duration::from_millis(100), 2);

/// Left standing: this share of what comes in a round trip…
const SPARE_SHARE: u64 = 8;

/// …and at least so much.
const SPARE_LEAST: u64 = 256 << 10;

/// One look at a sink.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// From when on; a time to come while what was granted under another window is still on its way.
    from: Instant,
    begun: bool,
    /// The least that waited.
    least: u64,
}

/// Watches what waits for one sink.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    look: Option<Look>,
    /// The least that waited in the look before.
    before: u64,
    /// What may stand.
    spare: u64,
}

impl Standing {
    /// The sink has taken some, and `backlog` wait.
    pub(crate) fn on_consumed(&mut self, backlog: u64) {
        if let Some(look) = &mut self.look {
            look.least = backlog.min(look.least);
        }
    }

    /// Looks again, from a round trip after now on: the window has changed.
    pub(crate) fn begin_again(&mut self, now: Instant, round_trip: Duration) {
        self.look = Some(Look { from: now + round_trip, begun: false, least: u64::MAX });
    }

    /// A round trip is over, in which `in_flight` bytes came, and `backlog` wait. Says what could be spared of the window: by no more
    /// than that will less wait, at the rate the sink has, so it never waits itself.
    pub(crate) fn on_epoch(
        &mut self,
        backlog: u64,
        in_flight: u64,
        now: Instant,
        round_trip: Duration,
    ) -> Option<u64> {
        self.spare = (in_flight / SPARE_SHARE).max(SPARE_LEAST);
        let next = Look { from: now, begun: true, least: backlog };
        let look = self.look.get_or_insert(next);
        if !look.begun {
            if now >= look.from {
                *look = next;
            }
            return None;
        }
        if now.saturating_duration_since(look.from) < LOOK.0.max(round_trip * LOOK.1) {
            return None;
        }
        self.before = look.least.min(backlog);
        *look = next;
        self.before.checked_sub(self.spare).filter(|&more| more >= self.spare)
    }

    /// The sink is what limits: for some time there has always been something to take.
    pub(crate) fn limits(&self) -> bool {
        let least = self.look.map_or(0, |look| look.least).min(self.before);
        least > self.spare / 4
    }

    /// There is no more than what may stand.
    pub(crate) const fn is_enough(&self, backlog: u64) -> bool {
        backlog <= self.spare
    }
}
