//! Tells by the course of a flow what dropped its segments: a policer, or a queue that was full.
//!
//! A policer drops what exceeds a rate and delays nothing. So losses return whenever the sender tries for more, and the
//! round trip stays as it is without load. A queue delays before it drops. BBR fills it while it starts (with 2.9 times
//! the rate, draft-ietf-ccwg-bbr), loses a burst, then keeps it empty: seen as a whole, such a flow has the losses, the even
//! rate and the short round trip of a policed one.

use crate::Point;

/// The TCP of a sending end at one moment: counters since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Look {
    /// Time, seconds from any origin.
    pub seconds: f64,
    /// Segments sent, with those that were sent again.
    pub sent: f64,
    /// Segments sent again.
    pub resent: f64,
    /// Bytes that the receiver has acknowledged.
    pub acked: f64,
    /// Smoothed round trip, seconds.
    pub round_trip: f64,
}

impl Look {
    /// What a sample shows; `None` where the kernel does not count it.
    pub fn of(point: &Point) -> Option<Self> {
        let tcp = |name| point.sample.tcp(name).map(|value| value as f64);
        Some(Self {
            seconds: point.seconds,
            sent: tcp("data_segs_out")?,
            resent: tcp("total_retrans")?,
            acked: tcp("bytes_acked")?,
            round_trip: tcp("rtt").filter(|micros| *micros > 0.0)? / 1e6,
        })
    }
}

/// Course of the losses of a flow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Drops {
    /// Segments sent again while the flow started: until its first losses were mended.
    pub first: f64,
    /// Segments sent after that.
    pub later_sent: f64,
    /// Those of them that were sent again.
    pub later: f64,
    /// Times that losses returned after the start, each after a pause.
    pub returned: usize,
    /// Part of the time after the start in which there were losses.
    pub spread: f64,
    /// Mean round trip at the first losses, seconds.
    pub first_round_trip: f64,
    /// Mean round trip at the later losses, seconds.
    pub later_round_trip: Option<f64>,
    /// Highest rate up to the first loss, bytes/s.
    pub burst: f64,
    /// Mean rate after the start, bytes/s.
    pub usual: f64,
    /// Longest time between two looks at the first losses, seconds.
    pub resolution: f64,
}

/// Pause after which losses are new ones, round trips and seconds, whichever is longer.
const PAUSE: (f64, f64) = (4.0, 0.1);
/// Part of a flow that its start takes at most.
const START: f64 = 0.34;

impl Drops {
    /// The course of a flow; `None` where nothing was lost, or the looks are too few.
    pub fn of(looks: &[Look]) -> Option<Self> {
        let lowest = looks.iter().map(|look| look.round_trip).min_by(f64::total_cmp)?;
        let steps: Vec<Step> = looks.windows(2).filter_map(Step::between).collect();
        let (begun, ended) = (looks.first()?.seconds, looks.last()?.seconds);
        let first = steps.iter().position(|step| step.resent > 0.0)?;
        let pause = (PAUSE.0 * lowest).max(PAUSE.1);
        // The start ends before the first pause.
        let latest = begun + START * (ended - begun);
        let mut quiet = 0.0;
        let mut start = first + 1;
        for (index, step) in steps.iter().enumerate().skip(first + 1) {
            quiet = if step.resent > 0.0 { 0.0 } else { quiet + step.seconds };
            if quiet >= pause || step.ends > latest {
                break;
            }
            start = index + 1;
        }
        let (at_start, later) = steps.split_at(start.min(steps.len()));
        let (mut returned, mut quiet) = (0, pause);
        for step in later {
            if step.resent > 0.0 {
                returned += usize::from(quiet >= pause);
                quiet = 0.0;
            } else {
                quiet += step.seconds;
            }
        }
        let seconds = |steps: &[Step]| steps.iter().map(|step| step.seconds).sum::<f64>();
        let lossy: f64 = later.iter().filter(|step| step.resent > 0.0).map(|step| step.seconds).sum();
        let around = steps.get(first.saturating_sub(1)..=first)?;
        Some(Self {
            first: at_start.iter().map(|step| step.resent).sum(),
            later_sent: later.iter().map(|step| step.sent).sum(),
            later: later.iter().map(|step| step.resent).sum(),
            returned,
            spread: lossy / seconds(later).max(1e-6),
            first_round_trip: at_losses(at_start)?,
            later_round_trip: at_losses(later),
            burst: steps[..=first].iter().map(Step::rate).fold(0.0, f64::max),
            usual: later.iter().map(|step| step.acked).sum::<f64>() / seconds(later).max(1e-6),
            resolution: around.iter().map(|step| step.seconds).fold(0.0, f64::max),
        })
    }
}

/// A queue that drops when it is full delays by more than this part of the round trip, or this time, seconds.
const NO_QUEUE: (f64, f64) = (0.15, 0.003);
/// The same, where nothing but the round trip tells a policer from a queue that holds a tenth of a round trip's data.
const SURELY_NO_QUEUE: (f64, f64) = (0.06, 0.002);
/// How many times the later rate passes before the first loss where a bucket is full at first. A queue lets at most its
/// line's rate pass at any time.
const BURST: f64 = 2.0;
/// Times that losses return, and the part of the later segments that is lost, where more is dropped again and again.
const RETURNED: usize = 2;
const RETURNS: f64 = 0.001;
/// Part of the time with losses that counts as returning where they hardly pause.
const HARDLY_PAUSES: f64 = 0.3;
/// Longest time between looks, round trips, at which the first losses show the queue before them.
const SEEN: f64 = 2.0;

/// True for a round trip under load of a path that, idle, has the other one: without a queue.
pub fn is_short(loaded: f64, idle: f64) -> bool {
    exceeds_less(loaded, idle, NO_QUEUE)
}

/// Round trip at losses from which a full queue has dropped the segments, multiples of the idle one, and seconds more.
const FULL: (f64, f64) = (1.3, 0.01);

fn exceeds_less(loaded: f64, idle: f64, (part, least): (f64, f64)) -> bool {
    loaded - idle <= (part * idle).max(least)
}

impl Drops {
    /// Mean round trip at the losses that count, seconds: the later ones, where there are any.
    pub fn round_trip(&self) -> f64 {
        self.later_round_trip.unwrap_or(self.first_round_trip)
    }

    /// Part of the segments after the start that was sent again.
    pub fn later_part(&self) -> f64 {
        self.later / self.later_sent.max(1.0)
    }

    /// True where much more than the later rate passed before the first loss, as from a full bucket of tokens.
    pub fn has_burst(&self) -> bool {
        self.usual > 0.0 && self.burst >= BURST * self.usual
    }

    /// True where segments were lost in a queue that was full. `idle` is the round trip without load, seconds.
    pub fn is_of_full_queue(&self, idle: f64) -> bool {
        self.round_trip() >= (FULL.0 * idle).max(idle + FULL.1)
    }

    /// True where losses returned after the start.
    fn returns(&self) -> bool {
        let is_often = self.returned >= RETURNED || self.spread >= HARDLY_PAUSES;
        is_often && self.later >= RETURNS * self.later_sent
    }

    /// True where something drops what exceeds a rate, and delays nothing. `idle` is the round trip without load, seconds.
    ///
    /// A policer drops nothing until its bucket is empty, so much more than its rate passes before the first loss. One with
    /// a small bucket shows by the round trip alone: it is as short as without load, at the first losses and at later ones.
    pub fn is_policed(&self, idle: f64) -> bool {
        if self.has_burst() {
            return is_short(self.round_trip(), idle);
        }
        let all = [Some(self.first_round_trip), self.later_round_trip];
        let is_flat = all.into_iter().flatten().all(|at| exceeds_less(at, idle, SURELY_NO_QUEUE));
        is_flat && (self.returns() || self.resolution <= SEEN * idle)
    }
}

/// What happened between two looks.
struct Step {
    ends: f64,
    seconds: f64,
    sent: f64,
    resent: f64,
    acked: f64,
    round_trip: f64,
}

impl Step {
    fn between(looks: &[Look]) -> Option<Self> {
        let [before, after] = looks else { return None };
        let seconds = after.seconds - before.seconds;
        (seconds > 0.0).then(|| Self {
            ends: after.seconds,
            seconds,
            sent: (after.sent - before.sent).max(0.0),
            resent: (after.resent - before.resent).max(0.0),
            acked: (after.acked - before.acked).max(0.0),
            round_trip: before.round_trip.max(after.round_trip),
        })
    }

    fn rate(&self) -> f64 {
        self.acked / self.seconds
    }
}

/// Mean round trip of these steps by their losses, seconds.
fn at_losses(steps: &[Step]) -> Option<f64> {
    let resent: f64 = steps.iter().map(|step| step.resent).sum();
    let weighted: f64 = steps.iter().map(|step| step.resent * step.round_trip).sum();
    (resent > 0.0).then(|| weighted / resent)
}

#[cfg(test)]
mod tests;
