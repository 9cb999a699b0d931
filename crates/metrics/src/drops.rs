//! Finds from the course of a flow whether a policer or a full queue dropped its segments.
//!
//! A policer drops data above a rate and delays nothing. So losses return whenever the sender tries a higher
//! rate, and the round trip stays as short as without load. A queue delays before it drops. BBR fills it
//! while it starts (with 2.9 times the rate, draft-ietf-ccwg-bbr), loses a burst, then keeps it empty. As a
//! whole, such a flow has the losses, the even rate and the short round trip of a policed one.

use crate::Point;

/// TCP state of a sender at one moment: counters since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TcpCounters {
    /// Time, seconds from any origin.
    pub seconds: f64,
    /// Segments sent, including retransmissions.
    pub sent: f64,
    /// Segments retransmitted.
    pub resent: f64,
    /// Bytes that the receiver has acknowledged.
    pub acked: f64,
    /// Smoothed round trip, seconds.
    pub round_trip: f64,
}

impl TcpCounters {
    /// Returns the counters of a sample; `None` if the kernel does not report them.
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
    /// Segments retransmitted while the flow started, up to the recovery from its first losses.
    pub first: f64,
    /// Segments sent after the start.
    pub later_sent: f64,
    /// Segments retransmitted after the start.
    pub later: f64,
    /// Number of times that losses returned after the start, each after a pause.
    pub returned: usize,
    /// Share of the time after the start in which there were losses.
    pub spread: f64,
    /// Mean round trip at the first losses, seconds.
    pub first_round_trip: f64,
    /// Mean round trip at the later losses, seconds.
    pub later_round_trip: Option<f64>,
    /// Highest rate up to the first loss, bytes/s.
    pub burst: f64,
    /// Mean rate after the start, bytes/s.
    pub usual: f64,
    /// Longest time between two samples at the first losses, seconds.
    pub resolution: f64,
}

/// Pause after which losses count as a new group: 4 round trips or 0.1 s, whichever is longer.
const PAUSE: (f64, f64) = (4.0, 0.1);
/// Largest share of a flow's time that counts as its start.
const START: f64 = 0.34;

impl Drops {
    /// Computes the course of a flow; `None` if nothing was lost, or there are too few samples.
    pub fn of(looks: &[TcpCounters]) -> Option<Self> {
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

/// Delay that a full queue exceeds: share of the idle round trip, and seconds; the larger one applies.
const NO_QUEUE: (f64, f64) = (0.15, 0.003);
/// Stricter values of [`NO_QUEUE`], for flows in which only the round trip distinguishes a policer from a
/// queue that holds a tenth of a round trip's data.
const SURELY_NO_QUEUE: (f64, f64) = (0.06, 0.002);
/// Ratio of the rate before the first loss to the later rate from which a token bucket was full at first. A
/// queue never passes more than its line's rate.
const BURST: f64 = 2.0;
/// Number of times that losses return, and share of the later segments that is lost, from which drops count
/// as recurring.
const RETURNED: usize = 2;
const RETURNS: f64 = 0.001;
/// Share of the time with losses from which drops count as recurring although they hardly pause.
const HARDLY_PAUSES: f64 = 0.3;
/// Longest time between samples, round trips, at which the first losses still show the queue before them.
const SEEN: f64 = 2.0;

/// True if the round trip `loaded` under load is as short as `idle`, so that no queue delays the path.
pub fn is_short(loaded: f64, idle: f64) -> bool {
    exceeds_less(loaded, idle, NO_QUEUE)
}

/// Round trip at losses from which a full queue has dropped the segments: multiples of the idle round trip,
/// and seconds beyond it; the larger one applies.
const FULL: (f64, f64) = (1.3, 0.01);

fn exceeds_less(loaded: f64, idle: f64, (part, least): (f64, f64)) -> bool {
    loaded - idle <= (part * idle).max(least)
}

impl Drops {
    /// Mean round trip at the later losses, or at the first ones if there are no later ones, seconds.
    pub fn round_trip(&self) -> f64 {
        self.later_round_trip.unwrap_or(self.first_round_trip)
    }

    /// Share of the segments after the start that was retransmitted.
    pub fn later_part(&self) -> f64 {
        self.later / self.later_sent.max(1.0)
    }

    /// True if the rate before the first loss was much higher than the later one, as with a full token
    /// bucket.
    pub fn has_burst(&self) -> bool {
        self.usual > 0.0 && self.burst >= BURST * self.usual
    }

    /// True if segments were lost in a full queue. `idle` is the round trip without load, seconds.
    pub fn is_of_full_queue(&self, idle: f64) -> bool {
        self.round_trip() >= (FULL.0 * idle).max(idle + FULL.1)
    }

    /// True if losses returned after the start.
    fn returns(&self) -> bool {
        let is_often = self.returned >= RETURNED || self.spread >= HARDLY_PAUSES;
        is_often && self.later >= RETURNS * self.later_sent
    }

    /// True if a policer drops data above a rate without delaying any. `idle` is the round trip without load,
    /// seconds.
    ///
    /// A policer drops nothing until its token bucket is empty, so the rate before the first loss is much
    /// higher than the later one. A policer with a small bucket is recognised by the round trip alone: it is
    /// as short as without load, at the first losses and at later ones.
    pub fn is_policed(&self, idle: f64) -> bool {
        if self.has_burst() {
            return is_short(self.round_trip(), idle);
        }
        let all = [Some(self.first_round_trip), self.later_round_trip];
        let is_flat = all.into_iter().flatten().all(|at| exceeds_less(at, idle, SURELY_NO_QUEUE));
        is_flat && (self.returns() || self.resolution <= SEEN * idle)
    }
}

/// Changes between two samples.
struct Step {
    ends: f64,
    seconds: f64,
    sent: f64,
    resent: f64,
    acked: f64,
    round_trip: f64,
}

impl Step {
    fn between(looks: &[TcpCounters]) -> Option<Self> {
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

/// Returns the mean round trip of these steps, weighted by their losses, seconds.
fn at_losses(steps: &[Step]) -> Option<f64> {
    let resent: f64 = steps.iter().map(|step| step.resent).sum();
    let weighted: f64 = steps.iter().map(|step| step.resent * step.round_trip).sum();
    (resent > 0.0).then(|| weighted / resent)
}

#[cfg(test)]
mod tests;
