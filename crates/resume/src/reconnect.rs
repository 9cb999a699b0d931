//! The client's policy: when to connect again, and when to give up.

use std::time::{Duration, Instant};

/// The first pauses between the starts of attempts.
const FIRST_PAUSES: [Duration; 3] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_millis(750)];

/// Later pauses between the starts of attempts: the client notices within a second that the path works again.
const PAUSE: Duration = Duration::from_secs(1);

/// Pause when the link has been broken for [`LONG_AWAY`].
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// Time after which the path is not expected to recover soon.
const LONG_AWAY: Duration = Duration::from_secs(120);

/// Time without progress after which an attempt is abandoned. A key exchange over the longest path needs
/// less.
const STUCK: Duration = Duration::from_secs(10);

/// Attempts in a row that find an unaccepted host key, each with [`PAUSE`]. A host that is replaced for a
/// moment, as when an address moves, is noticed soon; one that stays costs a key exchange every
/// [`LONG_PAUSE`]. Servers that count connections without a login (OpenSSH's `PerSourcePenalties`: 1 s for
/// each, enforced from 15 s on) tolerate one a second.
const OTHER_KEYS: u32 = 30;

/// Limit of simultaneous attempts.
const BESIDE: usize = 2;

/// Minimum life of a resumed link for the first attempt after its break to start at once. An attacker who
/// resets each link would otherwise make both ends exchange keys without a pause.
const SETTLED: Duration = Duration::from_secs(10);

/// Number of an attempt of a [`Reconnect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptId(u64);

/// Next action of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Make a connection, and claim the session on it, unless another attempt has done so.
    Connect(AttemptId),
    /// Close the connection of this attempt, which makes no progress. Report its failure before the next
    /// [`Reconnect::poll`].
    Abandon(AttemptId),
    /// End the session: its time is over, or the server no longer has it.
    GiveUp,
}

/// Reason why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The connection could not be made, or broke.
    Path,
    /// A host answered whose host key is not accepted. Nothing was asked of it.
    OtherKey,
    /// Another host refused: one with an accepted key, or a jump host before the server was reached. The next
    /// attempt may reach the server.
    Elsewhere,
    /// The session's server refused the claim and proved its host key, or the session cannot be continued at
    /// all.
    Refused,
}

/// An attempt in progress.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    id: AttemptId,
    /// Time of its start, or of its last progress.
    at: Instant,
    /// Time that it may take without progress.
    timeout: Duration,
    /// The network has changed since the attempt started.
    outdated: bool,
    /// See [`Reconnect::has_short_segments`].
    short_segments: bool,
}

impl Attempt {
    /// Returns true where the attempt had an answer and then none, which a path that drops long packets does
    /// to a key exchange, without a message about it.
    fn stopped_at_long_segments(&self) -> bool {
        self.timeout == STUCK && !self.short_segments && !self.outdated
    }
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

/// Policy of reconnecting, in virtual time. An attempt may stop making progress, for example after the
/// server's first answer, when the path is lost again and recovers. Another attempt then starts beside it,
/// and replaces the older of two.
#[derive(Debug, Clone)]
pub struct Reconnect {
    /// Time for which the server keeps the session without a connection.
    grace: Duration,
    state: State,
    /// Attempts in progress, oldest first.
    under_way: Vec<Attempt>,
    /// Number of attempts since the last link that lasted.
    attempts: usize,
    /// Number of attempts that were replaced although they had made progress, since the link broke.
    replaced: u32,
    /// Number of attempts in a row that found an unaccepted host key, since the link broke.
    other_keys: u32,
    /// Number of attempts in the session.
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
            other_keys: 0,
            numbered: 0,
            started: None,
            round_trip: Duration::ZERO,
        }
    }

    /// Sets the round trip that the session's links had: attempts get more time over a long path.
    pub const fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// Records that the link is broken, or counts as broken.
    pub fn on_broken(&mut self, now: Instant) {
        let State::Connected { since } = self.state else { return };
        if since.is_none_or(|since| now.saturating_duration_since(since) >= SETTLED) {
            self.attempts = 0;
        }
        self.under_way.clear();
        (self.replaced, self.other_keys) = (0, 0);
        self.state = State::Away { since: now, next: now };
        self.schedule(now);
    }

    /// Returns the number of an attempt that is made beside a working link. The policy does not track it
    /// until [`on_broken_beside`](Self::on_broken_beside).
    pub const fn number(&mut self) -> AttemptId {
        self.numbered += 1;
        AttemptId(self.numbered)
    }

    /// Records that the link is broken or given up, and that this attempt, which was made beside it, has made
    /// progress. Other attempts start only if it makes no further progress.
    pub fn on_broken_beside(&mut self, id: AttemptId, now: Instant) {
        self.on_broken(now);
        self.started = Some(now);
        self.under_way.push(Attempt { id, at: now, timeout: STUCK, outdated: false, short_segments: false });
        self.attempts += 1;
        self.schedule(now);
    }

    /// Returns true for an attempt whose TCP segments are to be so short that every path takes them: the
    /// attempt before it stopped after its first answer. Of several such attempts in a row every second one
    /// is, because the path may be lost for another reason.
    pub fn has_short_segments(&self, id: AttemptId) -> bool {
        self.under_way.iter().any(|attempt| attempt.id == id && attempt.short_segments)
    }

    /// Records that the attempt has failed. Its connection is closed.
    pub fn on_failed(&mut self, id: AttemptId, failure: Failure, now: Instant) {
        let Some(index) = self.under_way.iter().position(|attempt| attempt.id == id) else { return };
        let attempt = self.under_way.remove(index);
        if failure == Failure::Refused {
            self.state = State::Over;
        }
        self.schedule(now);
        // The answer of another host costs a key exchange. It has no meaning for a network that has changed
        // since.
        self.other_keys = if failure == Failure::OtherKey { self.other_keys + 1 } else { 0 };
        match failure {
            _ if attempt.outdated => {}
            Failure::OtherKey if self.other_keys <= OTHER_KEYS => self.put_off(PAUSE),
            Failure::OtherKey | Failure::Elsewhere => self.put_off(LONG_PAUSE),
            Failure::Path | Failure::Refused => {}
        }
    }

    /// Delays the next attempt to this time after the start of the last one, at least.
    fn put_off(&mut self, pause: Duration) {
        if let (State::Away { next, .. }, Some(started)) = (&mut self.state, self.started) {
            *next = (*next).max(started + pause);
        }
    }

    /// Records that the attempt has claimed the session, but a later attempt has too. Its connection is
    /// closed.
    pub fn on_replaced(&mut self, id: AttemptId, now: Instant) {
        self.replaced += 1;
        self.on_failed(id, Failure::Path, now);
    }

    /// Records that the attempt has received something.
    pub fn on_progress(&mut self, id: AttemptId, now: Instant) {
        if let Some(attempt) = self.under_way.iter_mut().find(|attempt| attempt.id == id) {
            // The report may be late.
            (attempt.at, attempt.timeout) = (attempt.at.max(now), STUCK);
        }
    }

    /// Records that the session continues over the new link. Abandon all other attempts.
    pub fn on_resumed(&mut self, now: Instant) {
        self.under_way.clear();
        self.state = State::Connected { since: Some(now) };
    }

    /// Records that the machine has another address or route, or was resumed: the next attempt starts now.
    pub fn on_network_changed(&mut self, now: Instant) {
        let State::Away { next, .. } = &mut self.state else { return };
        for attempt in &mut self.under_way {
            attempt.outdated = true;
        }
        // A network may change several times in a second.
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
        // Pauses count from start to start: an attempt that took long has used up its pause.
        *next = self.started.map_or(now, |started| now.max(started + pause));
    }

    /// Returns the next action, once.
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
        let stuck = self.under_way.iter().find(|attempt| attempt.at + attempt.timeout <= now);
        if let Some(attempt) = stuck {
            return Some(Action::Abandon(attempt.id));
        }
        if self.next_start().is_none_or(|start| start > now) {
            return None;
        }
        if self.under_way.len() == BESIDE {
            let oldest = self.under_way.first()?;
            // An attempt made before the network changed says nothing about the time that attempts need now.
            self.replaced += u32::from(!oldest.outdated);
            return Some(Action::Abandon(oldest.id));
        }
        let id = self.number();
        self.attempts += 1;
        self.started = Some(now);
        let timeout = self.first_timeout();
        let short_segments = self.under_way.last().is_some_and(|before| before.stopped_at_long_segments());
        self.under_way.push(Attempt { id, at: now, timeout, outdated: false, short_segments });
        Some(Action::Connect(id))
    }

    /// Returns the time at which the next attempt starts, unless another one makes progress before.
    fn next_start(&self) -> Option<Instant> {
        let State::Away { next, .. } = self.state else { return None };
        let Some(newest) = self.under_way.last() else { return Some(next) };
        if newest.outdated {
            return Some(next);
        }
        // No attempt starts beside one that already has the time that the longest path needs.
        (newest.timeout == STUCK).then(|| next.max(newest.at + self.overlap()))
    }

    /// Returns the time without progress after which another attempt starts. It covers several round trips,
    /// because the peer may send nothing for two of them after its first answer. Each replaced attempt
    /// doubles it: a server may take seconds to check the account, and attempts that replace each other
    /// sooner would never end.
    fn overlap(&self) -> Duration {
        (PAUSE.max(self.round_trip * 4) * (1 << self.replaced.min(4))).min(STUCK)
    }

    /// Returns the time that an attempt may take to the first answer. The kernel repeats the first packet of
    /// a connection after 1, 3 and 7 s, so a new attempt finds a recovered path sooner. Every sixteenth
    /// attempt gets the time that the longest path needs, in case the path has changed.
    fn first_timeout(&self) -> Duration {
        if self.attempts.is_multiple_of(16) { STUCK } else { PAUSE.max(self.round_trip * 3).min(STUCK) }
    }

    /// Returns the time at which to call [`poll`](Self::poll).
    pub fn next_deadline(&self) -> Option<Instant> {
        let State::Away { since, .. } = self.state else { return None };
        let stuck = self.under_way.iter().map(|attempt| attempt.at + attempt.timeout);
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
