//! Sizing of a receive window by measurement.
//!
//! Three questions are answered:
//! 1. *Does the window limit the rate?* Over each round trip, the received bytes are compared with the
//!    window. When they reach half of it, the window becomes four times the received bytes. So it stays ahead
//!    of a sender whose TCP doubles its rate every round trip, and ends at two to four times the
//!    bandwidth-delay product.
//! 2. *Would a smaller window suffice?* Once the rate is steady, half the window is tried; if the rate stays,
//!    so does the smaller window. This limits memory, and it finds the best window for a sender that becomes
//!    slower with a large one (OpenSSH since 8.9, beyond about 15 MiB), independent of its version string. A
//!    failed trial is undone at once and not repeated for a time that doubles with each failure. From time to
//!    time the double size is tried in the same way, because a path may have become faster.
//! 3. *Is the sink slower than the path?* See [`StandingQueue`].

use std::time::{Duration, Instant};

use crate::standing_queue::StandingQueue;

/// Minimum time over which a rate is measured, and the minimum number of round trips.
const JUDGED_OVER: (Duration, u32) = (Duration::from_millis(400), 8);

/// First pause after a failed trial.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// Longest pause between trials.
const LONGEST_PAUSE: Duration = Duration::from_secs(256);

/// Target size of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowTarget {
    /// Grant credit up to this size, bytes, with the next adjust.
    Larger(u64),
    /// Withhold credit until the window has this size, bytes.
    Smaller(u64),
    /// Like `Smaller`, but only while the sink's backlog exceeds what it needs ([`Growth::sink_has_enough`]).
    Spare(u64),
}

/// Interval over which a rate is measured.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: Instant,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The window grows as fast as data arrives.
    Ramp,
    /// The rate at the current size is being measured.
    Steady(Option<Span>),
    /// The rate at another size is being measured, to compare it with the previous one.
    Trial { span: Option<Span>, before: u64, rate_before: f64, down: bool },
}

/// Measurements and decisions for the size of a receive window.
#[derive(Debug, Clone)]
pub(crate) struct Growth {
    epoch: Option<Span>,
    phase: Phase,
    /// Time from which measurements count; bytes sent under the previous window do not.
    settled_at: Option<Instant>,
    /// Bytes in flight under a window that was found sufficient: only more than that makes it grow again.
    sufficient: Option<u64>,
    pause: Duration,
    next_trial: Option<Instant>,
    next_is_up: bool,
    standing_queue: StandingQueue,
    /// Bytes received in the last round trip.
    in_flight: u64,
    /// Smallest backlog in this round trip, sampled when the sink had consumed something. The backlog at
    /// other times means nothing: a window that is used up at once arrives in one burst, always at the same
    /// moment.
    least: u64,
    /// The sink has been the limit: from then on the window grows in smaller steps.
    was_spared: bool,
}

impl Default for Growth {
    fn default() -> Self {
        Self {
            epoch: None,
            phase: Phase::Ramp,
            settled_at: None,
            sufficient: None,
            pause: FIRST_PAUSE,
            next_trial: None,
            next_is_up: false,
            standing_queue: StandingQueue::default(),
            in_flight: 0,
            least: u64::MAX,
            was_spared: false,
        }
    }
}

/// Current state of the window, bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present {
    pub(crate) size: u64,
    pub(crate) initial: u64,
    pub(crate) cap: u64,
    /// Bytes that arrived but are not consumed by the sink.
    pub(crate) backlog: u64,
    /// An earlier target has not been reached yet.
    pub(crate) changing: bool,
}

impl Growth {
    /// Records `n` received bytes. A returned target replaces the previous one.
    pub(crate) fn on_data(
        &mut self,
        n: u64,
        now: Instant,
        round_trip: Option<Duration>,
        window: Present,
    ) -> Option<WindowTarget> {
        let epoch = self.epoch.get_or_insert(Span { from: now, bytes: 0 });
        epoch.bytes = epoch.bytes.saturating_add(n);
        if let Phase::Steady(Some(span)) | Phase::Trial { span: Some(span), .. } = &mut self.phase {
            span.bytes = span.bytes.saturating_add(n);
        }
        let round_trip = round_trip?;
        let elapsed = now.saturating_duration_since(epoch.from);
        if elapsed < round_trip {
            return None;
        }
        // An epoch lasts longer than a round trip when this process was not scheduled, or when the path is
        // short. So the rate counts.
        let in_flight = share(epoch.bytes, round_trip, elapsed);
        self.epoch = Some(Span { from: now, bytes: 0 });
        self.on_epoch(in_flight, now, round_trip, window)
    }

    /// Records that the sink has consumed bytes; `backlog` bytes still wait.
    pub(crate) fn on_consumed(&mut self, backlog: u64) {
        self.least = self.least.min(backlog);
        self.standing_queue.on_consumed(backlog);
    }

    /// Returns true when credit of `left` bytes exceeds the bytes of the last round trip by a quarter.
    pub(crate) const fn is_plenty(&self, left: u64) -> bool {
        left >= self.in_flight + self.in_flight / 4
    }

    /// Returns true when the backlog is no more than the sink needs.
    pub(crate) const fn sink_has_enough(&self, backlog: u64) -> bool {
        self.standing_queue.is_enough(backlog)
    }

    /// Records that [`WindowTarget::Spare`] has been reached or is out of date.
    pub(crate) fn spared(&mut self, now: Instant, round_trip: Duration) {
        self.standing_queue.begin_again(now, round_trip);
    }

    fn on_epoch(
        &mut self,
        in_flight: u64,
        now: Instant,
        round_trip: Duration,
        window: Present,
    ) -> Option<WindowTarget> {
        let waited = std::mem::replace(&mut self.least, u64::MAX).min(window.backlog);
        // Does not apply to a window that has become smaller than the sufficient one.
        let waiting = self.sufficient.is_some_and(|enough| {
            let more = enough.saturating_add(enough / 8);
            in_flight <= more && window.size > more
        });
        self.in_flight = in_flight;
        let spare = if window.changing {
            None
        } else {
            self.standing_queue.on_epoch(window.backlog, in_flight, now, round_trip)
        };
        let sink_limits = self.standing_queue.limits();
        // A sink that does not keep up is the limit; a larger window would only fill its backlog.
        if in_flight >= window.size / 2
            && waited <= window.size / 4
            && !sink_limits
            && window.size < window.cap
            && !waiting
            && !matches!(self.phase, Phase::Trial { .. })
        {
            self.phase = Phase::Ramp;
            self.sufficient = None;
            self.settled_at = None;
            let size =
                if self.was_spared { window.size.saturating_mul(2) } else { in_flight.saturating_mul(4) };
            return Some(WindowTarget::Larger(size.min(window.cap)));
        }
        if window.changing {
            self.settled_at = None;
            return None;
        }
        if sink_limits {
            if matches!(self.phase, Phase::Trial { .. }) {
                self.sufficient = None;
            }
            // The measured rates are then those of the sink, and mean nothing for the window.
            self.phase = Phase::Steady(None);
            self.settled_at = None;
            let smaller = window.size.saturating_sub(spare?).max(window.initial);
            if smaller >= window.size {
                return None;
            }
            // The window that was sufficient may be too small when the sink becomes faster.
            self.sufficient = None;
            self.was_spared = true;
            return Some(WindowTarget::Spare(smaller));
        }
        // Bytes sent under the previous window are in flight for a round trip.
        let settled = *self.settled_at.get_or_insert(now + round_trip * 2);
        if now < settled {
            return None;
        }
        let judged_after = JUDGED_OVER.0.max(round_trip * JUDGED_OVER.1);
        match &mut self.phase {
            Phase::Ramp => {
                self.phase = Phase::Steady(None);
                self.next_trial = Some(now);
                self.next_is_up = false;
                self.pause = FIRST_PAUSE;
                // The rest would only be needed by a rate that doubles every round trip.
                let enough = in_flight.saturating_mul(5) / 2;
                (enough >= window.initial && enough < window.size).then_some(WindowTarget::Smaller(enough))
            }
            Phase::Steady(span) | Phase::Trial { span, .. } if span.is_none() => {
                *span = Some(Span { from: now, bytes: 0 });
                None
            }
            Phase::Steady(Some(span)) if now.saturating_duration_since(span.from) >= judged_after => {
                let rate = rate(span, now);
                self.phase = Phase::Steady(None);
                self.try_another(rate, in_flight, now, window)
            }
            Phase::Trial { span: Some(span), before, rate_before, down }
                if now.saturating_duration_since(span.from) >= judged_after =>
            {
                let (rate, before, rate_before, down) = (rate(span, now), *before, *rate_before, *down);
                self.phase = Phase::Steady(None);
                self.settled_at = None;
                self.judge(rate, rate_before, before, down, in_flight, now)
            }
            _ => None,
        }
    }

    /// Decides whether another size is worth a trial, now that the rate at this size is known.
    fn try_another(
        &mut self,
        rate: f64,
        in_flight: u64,
        now: Instant,
        window: Present,
    ) -> Option<WindowTarget> {
        if self.next_trial.is_some_and(|then| now < then) {
            return None;
        }
        let up = std::mem::take(&mut self.next_is_up);
        let size = if up { window.size.saturating_mul(2).min(window.cap) } else { window.size / 2 };
        let sensible = if up {
            size > window.size && self.sufficient.is_some()
        } else {
            size >= window.initial && size >= in_flight.saturating_add(in_flight / 4)
        };
        if !sensible || rate <= 0.0 {
            // The other direction is tried later.
            self.next_is_up = !up;
            self.next_trial = Some(now + self.pause);
            return None;
        }
        self.phase = Phase::Trial { span: None, before: window.size, rate_before: rate, down: !up };
        self.settled_at = None;
        Some(if up { WindowTarget::Larger(size) } else { WindowTarget::Smaller(size) })
    }

    /// Compares the trial's rate with the previous one.
    fn judge(
        &mut self,
        rate: f64,
        rate_before: f64,
        before: u64,
        down: bool,
        in_flight: u64,
        now: Instant,
    ) -> Option<WindowTarget> {
        let (least, undo) =
            if down { (0.97, WindowTarget::Larger(before)) } else { (1.03, WindowTarget::Smaller(before)) };
        let keep = rate >= rate_before * least;
        // After a success the same direction is tried again, otherwise the other one.
        self.next_is_up = keep != down;
        if keep {
            self.sufficient = Some(in_flight);
            self.next_trial = Some(now);
            self.pause = FIRST_PAUSE;
            return None;
        }
        self.next_trial = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.sufficient = Some(self.sufficient.unwrap_or(0).max(in_flight));
        Some(undo)
    }
}

/// Converts `bytes` in `elapsed` to bytes per `round_trip`.
fn share(bytes: u64, round_trip: Duration, elapsed: Duration) -> u64 {
    let scaled = u128::from(bytes) * round_trip.as_nanos() / elapsed.as_nanos().max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn rate(span: &Span, now: Instant) -> f64 {
    span.bytes as f64 / now.saturating_duration_since(span.from).as_secs_f64().max(1e-9)
}
