//! How large a receive window should be: measured, never assumed.
//!
//! Two things are looked for. *Does the window limit?* Over each round trip the bytes that came are compared with the window;
//! when they reach half of it the window becomes four times what came, so that it stays ahead of a sender whose TCP doubles its
//! rate every round trip, and ends at two to four times what the path holds. *Would a smaller one do?* Once the rate is steady,
//! half the window is tried: where the rate stays, the smaller window stays too. That bounds memory, and it is what finds the
//! best window of a sender that gets slower with a large one (OpenSSH's since 8.9, beyond about 15 MiB), whatever its
//! version says. A trial that fails is undone at once and not repeated for a time that doubles; now and then the double is tried in
//! the same way, because a path may have become faster.

use std::time::{Duration, Instant};

/// The shortest time a rate is judged by, and how many round trips it must cover.
const JUDGED_OVER: (Duration, u32) = (Duration::from_millis(400), 8);

/// The first pause after a trial that did not help.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// The longest pause between trials.
const LONGEST_PAUSE: Duration = Duration::from_secs(256);

/// What the window should become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Grant this much in all, as soon as credit goes out.
    Larger(u64),
    /// Keep credit back until the window is this.
    Smaller(u64),
}

/// A span over which the rate is taken.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: Instant,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Growing as fast as data comes.
    Ramp,
    /// The rate at the present size is being taken.
    Steady(Option<Span>),
    /// The rate at another size is being taken, to compare with what was before.
    Trial { span: Option<Span>, before: u64, rate_before: f64, down: bool },
}

/// The measuring side of a receive window.
#[derive(Debug, Clone)]
pub(crate) struct Growth {
    epoch: Option<Span>,
    phase: Phase,
    /// Nothing that was sent under the former window counts: measuring begins then.
    settled_at: Option<Instant>,
    /// In-flight bytes of a window that was found sufficient: only more than that makes it grow again.
    sufficient: Option<u64>,
    pause: Duration,
    next_trial: Option<Instant>,
    next_is_up: bool,
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
        }
    }
}

/// The window as [`Growth`] sees it, bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Present {
    pub(crate) size: u64,
    pub(crate) initial: u64,
    pub(crate) cap: u64,
    /// Arrived, and not yet taken by the sink.
    pub(crate) backlog: u64,
    /// A wish that has not come true yet.
    pub(crate) changing: bool,
}

impl Growth {
    /// `n` bytes arrived. A wish replaces the one before.
    pub(crate) fn on_data(
        &mut self,
        n: u64,
        now: Instant,
        round_trip: Option<Duration>,
        window: Present,
    ) -> Option<Wish> {
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
        // An epoch lasts longer than a round trip when this process did not get to run, or the path is short: what counts is
        // the rate.
        let in_flight = share(epoch.bytes, round_trip, elapsed);
        self.epoch = Some(Span { from: now, bytes: 0 });
        self.on_epoch(in_flight, now, round_trip, window)
    }

    fn on_epoch(
        &mut self,
        in_flight: u64,
        now: Instant,
        round_trip: Duration,
        window: Present,
    ) -> Option<Wish> {
        let waiting = self.sufficient.is_some_and(|enough| in_flight <= enough.saturating_add(enough / 8));
        // A sink that does not keep up is what limits then, and a larger window would only fill it.
        if in_flight >= window.size / 2
            && window.backlog <= window.size / 4
            && window.size < window.cap
            && !waiting
            && !matches!(self.phase, Phase::Trial { .. })
        {
            self.phase = Phase::Ramp;
            self.sufficient = None;
            self.settled_at = None;
            return Some(Wish::Larger(in_flight.saturating_mul(4).min(window.cap)));
        }
        if window.changing {
            self.settled_at = None;
            return None;
        }
        // What was sent under the former window is still on its way for a round trip.
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
                None
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

    /// The rate at this size is known: is another one worth a trial?
    fn try_another(&mut self, rate: f64, in_flight: u64, now: Instant, window: Present) -> Option<Wish> {
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
            // The other direction may have its turn, later.
            self.next_is_up = !up;
            self.next_trial = Some(now + self.pause);
            return None;
        }
        self.phase = Phase::Trial { span: None, before: window.size, rate_before: rate, down: !up };
        self.settled_at = None;
        Some(if up { Wish::Larger(size) } else { Wish::Smaller(size) })
    }

    /// The trial's rate against the one before.
    fn judge(
        &mut self,
        rate: f64,
        rate_before: f64,
        before: u64,
        down: bool,
        in_flight: u64,
        now: Instant,
    ) -> Option<Wish> {
        let (least, undo) = if down { (0.97, Wish::Larger(before)) } else { (1.03, Wish::Smaller(before)) };
        let keep = rate >= rate_before * least;
        // Going the same way may help again, and otherwise the other one.
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

/// `bytes` in `elapsed`, as bytes per `round_trip`.
fn share(bytes: u64, round_trip: Duration, elapsed: Duration) -> u64 {
    let scaled = u128::from(bytes) * round_trip.as_nanos() / elapsed.as_nanos().max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn rate(span: &Span, now: Instant) -> f64 {
    span.bytes as f64 / now.saturating_duration_since(span.from).as_secs_f64().max(1e-9)
}
