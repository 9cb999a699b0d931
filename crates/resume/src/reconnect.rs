//! The client's policy: when to connect again, and when to give up.

use std::time::{Duration, Instant};

/// Pauses between the starts of attempts, at first.
const FIRST_PAUSES: [Duration; 3] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_millis(750)];

/// Pause between attempts: a path that is back is found within a second.
const PAUSE: Duration = Duration::from_secs(1);

/// Pause after [`LONG_AWAY`].
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// Time after which a path is not expected back at any moment.
const LONG_AWAY: Duration = Duration::from_secs(120);

/// Time that an attempt gets from its last progress. A key exchange over the longest path needs less.
const STUCK: Duration = Duration::from_secs(10);

/// Attempts that may be under way at a time.
const BESIDE: usize = 2;

/// Time that a resumed link must last before the next break is tried at once again. An attacker who resets
/// each link would otherwise make both ends exchange keys without a pause.
const SETTLED: Duration = Duration::from_secs(10);

/// Number of an attempt of a [`Reconnect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptId(u64);

/// Next action of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Make a connection, and claim the session on it, unless another attempt has done so.
    Connect(AttemptId),
    /// Close the connection that this attempt makes: it does not get on. Report that it has failed before the
    /// next question for what to do.
    Abandon(AttemptId),
    /// End the session: its time is over, or the server does not have it any more.
    GiveUp,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection, or it broke.
    Path,
    /// Another host answered: its host key is not that of the session's server, or it refused before the
    /// server was reached, as a jump host does. The server may be there at the next attempt.
    Elsewhere,
    /// The session's server, with its host key, refused the claim; or the session cannot go on at all.
    Refused,
}

/// An attempt that is under way.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    id: AttemptId,
    /// Time of its start, or of its last progress.
    at: Instant,
    /// Time that it gets without progress.
    patience: Duration,
    /// It was begun on a network that has changed since.
    outdated: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Connected {
        since: Option<Instant>,
    },
    Away {
        since: Instant,
        /// Time before which no attempt starts.
        next: Instant,
    },
    Over,
}

/// Reconnecting in virtual time. Another attempt begins beside one that may take long and makes no progress,
/// as after the server's first answer: the path may have been lost again, and be back. It replaces the older
/// of two.
#[derive(Debug, Clone)]
pub struct Reconnect {
    /// Time for which the server keeps the session without a connection.
    grace: Duration,
    state: State,
    /// Those under way, the oldest first.
    under_way: Vec<Attempt>,
    /// Attempts since the last link that lasted.
    attempts: usize,
    /// Attempts that had got on and were replaced nevertheless, since the link broke.
    replaced: u32,
    /// Attempts of the session.
    numbered: u64,
    /// Start of the last attempt.
    started: Option<Instant>,
    /// Round trip of the session's links.
    round_trip: Duration,
}

impl Reconnect {
    /// Starts connected. `grace` is the server's `ResumeGrace`, or the client's own limit if that is shorter.
    pub const fn new(grace: Duration) -> Self {
        Self {
            grace,
            state: State::Connected { since: None },
            under_way: Vec::new(),
            attempts: 0,
            replaced: 0,
            numbered: 0,
            started: None,
            round_trip: Duration::ZERO,
        }
    }

    /// Sets the round trip that the session's links had: attempts get more time over a long path.
    pub const fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// The link is broken, or counts as broken.
    pub fn on_broken(&mut self, now: Instant) {
        let State::Connected { since } = self.state else { return };
        if since.is_none_or(|since| now.saturating_duration_since(since) >= SETTLED) {
            self.attempts = 0;
        }
        self.under_way.clear();
        self.replaced = 0;
        self.state = State::Away { since: now, next: now };
        self.schedule(now);
    }

    /// Returns the number of an attempt that is made beside a good link, of which this policy knows nothing
    /// yet.
    pub const fn number(&mut self) -> AttemptId {
        self.numbered += 1;
        AttemptId(self.numbered)
    }

    /// The link is broken, or given up, and this attempt, which was made beside it, has got on. Others are
    /// begun only if it does not get on further.
    pub fn on_broken_beside(&mut self, id: AttemptId, now: Instant) {
        self.on_broken(now);
        self.started = Some(now);
        self.under_way.push(Attempt { id, at: now, patience: STUCK, outdated: false });
        self.attempts += 1;
        self.schedule(now);
    }

    /// The attempt has failed. Its connection is closed.
    pub fn on_failed(&mut self, id: AttemptId, failure: Failure, now: Instant) {
        let Some(index) = self.under_way.iter().position(|attempt| attempt.id == id) else { return };
        let attempt = self.under_way.remove(index);
        if failure == Failure::Refused {
            self.state = State::Over;
        }
        self.schedule(now);
        // The answer of another host costs a key exchange. It says nothing about a network that came after.
        if failure == Failure::Elsewhere && !attempt.outdated {
            self.put_off(LONG_PAUSE);
        }
    }

    /// Starts the next attempt this time after the last one began, or later.
    fn put_off(&mut self, pause: Duration) {
        if let (State::Away { next, .. }, Some(started)) = (&mut self.state, self.started) {
            *next = (*next).max(started + pause);
        }
    }

    /// The attempt has claimed the session, and so has a later one. Its connection is closed.
    pub fn on_replaced(&mut self, id: AttemptId, now: Instant) {
        self.replaced += 1;
        self.on_failed(id, Failure::Path, now);
    }

    /// The attempt has received something.
    pub fn on_progress(&mut self, id: AttemptId, now: Instant) {
        if let Some(attempt) = self.under_way.iter_mut().find(|attempt| attempt.id == id) {
            // It may be told of late.
            (attempt.at, attempt.patience) = (attempt.at.max(now), STUCK);
        }
    }

    /// The session goes on over the new link. Other attempts are to be given up.
    pub fn on_resumed(&mut self, now: Instant) {
        self.under_way.clear();
        self.state = State::Connected { since: Some(now) };
    }

    /// The machine has another address or route, or was woken: the next attempt starts now.
    pub fn on_network_changed(&mut self, now: Instant) {
        let State::Away { next, .. } = &mut self.state else { return };
        for attempt in &mut self.under_way {
            attempt.outdated = true;
        }
        // A network may change many times in a second.
        *next = self.started.map_or(now, |started| now.max(started + FIRST_PAUSES[0]));
        self.attempts = self.attempts.min(1);
    }

    /// Sets the time of the next attempt.
    fn schedule(&mut self, now: Instant) {
        let State::Away { since, next } = &mut self.state else { return };
        let pause = match self.attempts.checked_sub(1) {
            None => Duration::ZERO,
            Some(attempt) => match FIRST_PAUSES.get(attempt) {
                Some(pause) => *pause,
                None if now.saturating_duration_since(*since) < LONG_AWAY => PAUSE,
                None => LONG_PAUSE,
            },
        };
        // Pauses count from start to start: an attempt that took long has waited already.
        *next = self.started.map_or(now, |started| now.max(started + pause));
    }

    /// Returns what to do now, once.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        match self.state {
            State::Connected { .. } => return None,
            State::Over => return Some(Action::GiveUp),
            State::Away { since, .. } if now.saturating_duration_since(since) >= self.grace => {
                self.state = State::Over;
                return Some(Action::GiveUp);
            }
            State::Away { .. } => {}
        }
        let stuck = self.under_way.iter().find(|attempt| attempt.at + attempt.patience <= now);
        if let Some(attempt) = stuck {
            return Some(Action::Abandon(attempt.id));
        }
        if self.next_start().is_none_or(|start| start > now) {
            return None;
        }
        if self.under_way.len() == BESIDE {
            let oldest = self.under_way.first()?;
            // One that knows nothing of the network that there is now has not failed for want of time.
            self.replaced += u32::from(!oldest.outdated);
            return Some(Action::Abandon(oldest.id));
        }
        let id = self.number();
        self.attempts += 1;
        self.started = Some(now);
        let patience = self.first_patience();
        self.under_way.push(Attempt { id, at: now, patience, outdated: false });
        Some(Action::Connect(id))
    }

    /// Returns the time at which the next attempt starts, unless another one gets on until then.
    fn next_start(&self) -> Option<Instant> {
        let State::Away { next, .. } = self.state else { return None };
        let Some(newest) = self.under_way.last() else { return Some(next) };
        if newest.outdated {
            return Some(next);
        }
        // One that has as much time as the longest path needs is not waited for.
        (newest.patience == STUCK).then(|| next.max(newest.at + self.overlap()))
    }

    /// Time without progress after which another attempt begins. It covers some round trips, because a first
    /// answer may be the peer's only one for two of them. Each attempt that was replaced doubles it: a server
    /// may take seconds to check the account, and attempts that replace each other sooner would never end.
    fn overlap(&self) -> Duration {
        (PAUSE.max(self.round_trip * 4) * (1 << self.replaced.min(4))).min(STUCK)
    }

    /// Returns the time that an attempt gets for the first answer. The kernel repeats the first packet of a
    /// connection after 1, 3 and 7 s: a new attempt finds a path that is back sooner. Every sixteenth attempt
    /// gets as long as the longest path needs, in case the path has become another one.
    fn first_patience(&self) -> Duration {
        if self.attempts.is_multiple_of(16) { STUCK } else { PAUSE.max(self.round_trip * 3).min(STUCK) }
    }

    /// Returns the time at which to call [`poll`](Self::poll).
    pub fn next_deadline(&self) -> Option<Instant> {
        let State::Away { since, .. } = self.state else { return None };
        let stuck = self.under_way.iter().map(|attempt| attempt.at + attempt.patience);
        stuck.chain(self.next_start()).chain([since + self.grace]).min()
    }

    /// Returns the time that is left until the session is given up; `None` while it is connected.
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Connected { .. } => None,
            State::Away { since, .. } => {
                Some(self.grace.saturating_sub(now.saturating_duration_since(since)))
            }
            State::Over => Some(Duration::ZERO),
        }
    }
}

#[cfg(test)]
mod tests;
