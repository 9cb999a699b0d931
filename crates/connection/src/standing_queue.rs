//! Standing-queue detection: the backlog that a slow sink never drains, which only costs memory.
//!
//! A sink that works in bursts needs some backlog, which is consumed when the sink gets to run. The part that
//! remains at the end of every burst *stands*. The sink would be no slower without it, and its memory must be
//! allocated and is cold when it is consumed. It stands because the window is larger than the bytes in flight
//! at the sink's own rate. So the window shrinks by the standing part (except for a reserve in case the sink
//! becomes faster): credit is withheld while there is backlog. It grows again when the sink is found waiting.

use std::time::{Duration, Instant};

/// Minimum time of an observation, and the minimum number of round trips.
const LOOK: (Duration, u32) = (Duration::from_millis(100), 2);

/// Reserve that may stand, as the divisor of the bytes per round trip: one eighth.
const SPARE_SHARE: u64 = 8;

/// Minimum reserve, bytes.
const SPARE_LEAST: u64 = 256 << 10;

/// One observation of a sink.
#[derive(Debug, Clone, Copy)]
struct Look {
    /// Start of the observation. It is in the future while bytes granted under another window are in flight.
    from: Instant,
    begun: bool,
    /// Smallest backlog, bytes.
    least: u64,
}

/// Observes the backlog of one sink.
#[derive(Debug, Clone, Default)]
pub(crate) struct StandingQueue {
    look: Option<Look>,
    /// Smallest backlog in the previous observation, bytes.
    before: u64,
    /// Bytes that may stand.
    spare: u64,
}

impl StandingQueue {
    /// Records that the sink has consumed bytes; `backlog` bytes still wait.
    pub(crate) fn on_consumed(&mut self, backlog: u64) {
        if let Some(look) = &mut self.look {
            look.least = backlog.min(look.least);
        }
    }

    /// Restarts the observation one round trip from now, because the window has changed.
    pub(crate) fn begin_again(&mut self, now: Instant, round_trip: Duration) {
        self.look = Some(Look { from: now + round_trip, begun: false, least: u64::MAX });
    }

    /// Records the end of a round trip in which `in_flight` bytes arrived; `backlog` bytes wait. Returns the
    /// bytes by which the window may shrink. At the sink's rate the backlog shrinks by at most that number,
    /// so the sink never waits.
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

    /// Returns true when the sink is the limit: for some time there has always been backlog.
    pub(crate) fn limits(&self) -> bool {
        let least = self.look.map_or(0, |look| look.least).min(self.before);
        least > self.spare / 4
    }

    /// Returns true when the backlog is no more than may stand.
    pub(crate) const fn is_enough(&self, backlog: u64) -> bool {
        backlog <= self.spare
    }
}
