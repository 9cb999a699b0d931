//! Comparison of a link that is alive but stalled with a second link that may replace it.
//!
//! Only the first link carries the session. The second one exchanges keys and answers PINGs, but does not
//! claim the session. When it has proved faster, the client gives up the first link and claims the session on
//! the second one, as after a break.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time from one PING on the session's link to the next, while messages of the session move.
const INTERVAL: Duration = Duration::from_secs(5);

/// Time from the first message after an idle period to the PING. A PING directly behind a keystroke would
/// distinguish it from the chaff around it (`ObscureKeystrokeTiming`).
const REST: Duration = Duration::from_secs(2);

/// Age of an unanswered PING from which a link may be stalled. With short queues and a small congestion
/// window, TCP keeps a few packets in flight, which take two seconds at 3 kB/s.
const LATE: Duration = Duration::from_millis(1500);

/// Lower limit of that age, in shortest round trips of the link.
const LATE_ROUND_TRIPS: u32 = 8;

/// Time over which bytes are counted.
const WINDOW: Duration = Duration::from_secs(3);

/// Interval of checks while a PING is unanswered.
const LOOK: Duration = Duration::from_secs(1);

/// Rate of both directions together from which a link counts as slow instead of stalled, bytes/s.
const SLOW: u64 = 4 << 10;

/// Data of a PING on the second link, bytes. A whole comparison stays below the 512 KiB that a server reads
/// without a pause before a login.
pub const PROBE_LEN: usize = 16 << 10;

/// Time from one PING on the second link to the next.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Time for which the second link must stay the faster one.
const PROVEN: Duration = Duration::from_secs(10);

/// Ratio that makes the second link the faster one: it answers in a quarter of the time and delivers over
/// four times the bytes.
const FACTOR: u32 = 4;

/// Time after which a second link that is not faster is closed.
const LIMIT: Duration = Duration::from_secs(25);

/// Time from one second link to the next. It doubles with each second link that was not faster: the path may
/// simply be slow.
const PAUSE: Duration = Duration::from_secs(60);

/// Longest time from one second link to the next.
const LONGEST_PAUSE: Duration = Duration::from_secs(16 * 60);

/// Next action of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Send a PING on the session's link.
    Ask,
    /// Make a second connection, which sends PINGs of [`PROBE_LEN`] bytes, one each [`PROBE_INTERVAL`].
    Open,
    /// Give up the session's link, and claim the session on the second one.
    Replace,
    /// Close the second connection.
    Close,
}

/// Measurements of the second link.
#[derive(Debug, Clone, Copy, Default)]
pub struct Probe {
    /// Time at which the unanswered PING was sent.
    asked: Option<Instant>,
    /// Time from the last answered PING to its answer.
    delay: Option<Duration>,
    /// Bytes of all answers.
    bytes: u64,
}

impl Probe {
    /// Records that a PING was sent.
    pub const fn on_asked(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    /// Records the answer to the PING, with its number of bytes.
    pub fn on_answer(&mut self, bytes: usize, now: Instant) {
        self.delay = self.asked.take().map(|asked| now.saturating_duration_since(asked)).or(self.delay);
        self.bytes += bytes as u64;
    }

    /// Returns the bytes of the unanswered PING.
    const fn open_bytes(&self) -> u64 {
        if self.asked.is_some() { PROBE_LEN as u64 } else { 0 }
    }

    /// Returns the delay of the last answer, or the age of the unanswered PING if that is longer; `None`
    /// before the first answer.
    fn delay(&self, now: Instant) -> Option<Duration> {
        let age = self.asked.map(|asked| now.saturating_duration_since(asked));
        self.delay.map(|delay| age.map_or(delay, |age| age.max(delay)))
    }
}

/// State of the second link.
#[derive(Debug, Clone, Copy)]
struct Second {
    began: Instant,
    probe: Probe,
    /// Time since which it is the faster link, with the bytes that each link had delivered by then. The data
    /// of an unanswered PING counts as delivered, because its answer arrives within the compared time.
    faster: Option<(Instant, u64, u64)>,
}

/// Compares the two links, in virtual time.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Number of the session's messages at the last check.
    messages: u64,
    /// Messages have moved since the last PING.
    moved: bool,
    /// Time of the next PING.
    due: Option<Instant>,
    /// Time at which the unanswered PING was sent.
    asked: Option<Instant>,
    /// Delay of the last answer, if it was late.
    late: Option<Duration>,
    /// Shortest delay of an answer.
    round_trip: Option<Duration>,
    /// Times and the bytes delivered by then, oldest first, since the PING.
    window: VecDeque<(Instant, u64)>,
    second: Option<Second>,
    /// Earliest time of the next second link.
    not_before: Option<Instant>,
    pause: Duration,
}

impl Default for Comparison {
    fn default() -> Self {
        Self {
            messages: 0,
            moved: false,
            due: None,
            asked: None,
            late: None,
            round_trip: None,
            window: VecDeque::new(),
            second: None,
            not_before: None,
            pause: PAUSE,
        }
    }
}

impl Comparison {
    /// Resets the comparison, because the session has a new link, or none. A second link is closed.
    pub fn on_new_link(&mut self) {
        (self.due, self.asked, self.late, self.round_trip) = (None, None, None, None);
        self.window.clear();
        self.second = None;
    }

    /// Records the answer to the PING on the session's link. Returns [`Advice::Close`] if the link has
    /// recovered.
    pub fn on_answer(&mut self, now: Instant) -> Option<Advice> {
        let delay = now.saturating_duration_since(self.asked.take()?);
        self.round_trip = Some(self.round_trip.map_or(delay, |best| best.min(delay)));
        if delay >= self.limit() {
            // The next PING is sent at once: its answer may be late as well.
            (self.late, self.due) = (Some(delay), Some(now));
            return None;
        }
        self.late = None;
        self.window.clear();
        self.due = self.moved.then(|| now + INTERVAL);
        self.close(now)
    }

    /// Sets the measurements of the second link.
    pub const fn set_probe(&mut self, probe: Probe) {
        if let Some(second) = &mut self.second {
            second.probe = probe;
        }
    }

    /// Records that the second link could not be made, or broke.
    pub fn on_second_failed(&mut self, now: Instant) {
        self.close(now);
    }

    fn close(&mut self, now: Instant) -> Option<Advice> {
        self.second.take()?;
        self.not_before = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Some(Advice::Close)
    }

    fn limit(&self) -> Duration {
        LATE.max(self.round_trip.unwrap_or_default() * LATE_ROUND_TRIPS)
    }

    /// Returns the next action, once. `messages`: number of messages of the session, sent and received.
    /// `delivered` returns the bytes that the peer's TCP has acknowledged and those received. It returns
    /// `None` if they are unknown, which ends the comparison.
    pub fn poll(
        &mut self,
        messages: u64,
        delivered: impl FnOnce() -> Option<u64>,
        now: Instant,
    ) -> Option<Advice> {
        self.moved |= std::mem::replace(&mut self.messages, messages) != messages;
        let Some(asked) = self.asked else {
            if self.moved {
                self.due.get_or_insert(now + REST);
            }
            self.due.take_if(|due| *due <= now)?;
            if self.late.is_none() {
                self.window.clear();
            }
            self.window.push_back((now, delivered()?));
            (self.asked, self.moved) = (Some(now), false);
            return Some(Advice::Ask);
        };
        let (seen, _) = *self.window.back()?;
        let since = now.saturating_duration_since(seen);
        if since < LOOK {
            return None;
        }
        let Some(delivered) = delivered() else { return self.close(now) };
        if since > LOOK * 3 {
            // This process was stopped, or the machine was suspended.
            self.window.clear();
        }
        self.window.push_back((now, delivered));
        while self.window.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW) {
            self.window.pop_front();
        }
        let (from, before) = *self.window.front()?;
        let span = now.saturating_duration_since(from);
        if span < WINDOW {
            return None;
        }
        let delay = now.saturating_duration_since(asked).max(self.late.unwrap_or_default());
        let bytes = delivered.saturating_sub(before);
        let is_slow = u128::from(bytes) * 1000 < u128::from(SLOW) * span.as_millis();
        if !is_slow || delay < self.limit() {
            return self.close(now);
        }
        if self.second.is_some() {
            return self.compare(delay, delivered, now);
        }
        // If nothing at all is delivered, the path is silent or the server is busy.
        if bytes == 0 || self.not_before.is_some_and(|time| time > now) {
            return None;
        }
        self.second = Some(Second { began: now, probe: Probe::default(), faster: None });
        Some(Advice::Open)
    }

    fn compare(&mut self, delay: Duration, delivered: u64, now: Instant) -> Option<Advice> {
        let second = self.second.as_mut()?;
        let (bytes, open) = (second.probe.bytes, second.probe.open_bytes());
        if second.probe.delay(now).is_some_and(|second| second * FACTOR <= delay) {
            let (since, first_then, second_then) =
                *second.faster.get_or_insert((now, delivered, bytes + open));
            if now.saturating_duration_since(since) >= PROVEN {
                let first = delivered.saturating_sub(first_then);
                if first.saturating_mul(FACTOR.into()) < bytes.saturating_sub(second_then) {
                    self.on_new_link();
                    (self.not_before, self.pause) = (Some(now + PAUSE), PAUSE);
                    return Some(Advice::Replace);
                }
                second.faster = None;
            }
        } else {
            second.faster = None;
        }
        if now.saturating_duration_since(second.began) >= LIMIT {
            return self.close(now);
        }
        None
    }

    /// Returns the time at which to call [`poll`](Self::poll).
    pub fn next_deadline(&self) -> Option<Instant> {
        match (self.asked, self.window.back()) {
            (Some(_), Some((seen, _))) => Some(*seen + LOOK),
            _ => self.due,
        }
    }
}
