//! The client's policy: when a link counts as broken, when to connect again, and when to give up.

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

/// Time that a resumed link must last before the next break is tried at once again. An attacker who resets each
/// link would otherwise make both ends exchange keys without a pause.
const SETTLED: Duration = Duration::from_secs(10);

/// What the client is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Make a connection, and claim the session on it.
    Connect,
    /// Close the connection that is being made: it does not get on. Then report a failed attempt.
    Abandon,
    /// End the session: its time is over, or the server does not have it any more.
    GiveUp,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No connection, or it broke.
    Path,
    /// The server refused the claim, or is not the one that has the session (its host key, its proof).
    Refused,
}

/// Progress of the attempt that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    None,
    Started,
    /// Something was received.
    Answered,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Connected {
        since: Option<Instant>,
    },
    Away {
        since: Instant,
        /// Time of the next attempt, or of the last progress of the one that is under way.
        at: Instant,
        attempt: Attempt,
    },
    Over,
}

/// Reconnecting in virtual time. One attempt is under way at a time.
#[derive(Debug, Clone)]
pub struct Reconnect {
    /// Time for which the server keeps the session without a connection.
    grace: Duration,
    state: State,
    /// Attempts since the last link that lasted.
    attempts: usize,
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
            attempts: 0,
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
        self.state = State::Away { since: now, at: now, attempt: Attempt::None };
        self.schedule(now);
    }

    /// The attempt has failed. Its connection is closed.
    pub fn on_failed(&mut self, failure: Failure, now: Instant) {
        if failure == Failure::Refused {
            self.state = State::Over;
            return;
        }
        if let State::Away { attempt, .. } = &mut self.state {
            *attempt = Attempt::None;
            self.schedule(now);
        }
    }

    /// The attempt has received something.
    pub fn on_progress(&mut self, now: Instant) {
        if let State::Away { at, attempt, .. } = &mut self.state
            && *attempt != Attempt::None
        {
            (*at, *attempt) = (now, Attempt::Answered);
        }
    }

    /// The session goes on over the new link.
    pub fn on_resumed(&mut self, now: Instant) {
        self.state = State::Connected { since: Some(now) };
    }

    /// The machine has another address or route, or was woken: the next attempt starts now.
    pub fn on_network_changed(&mut self, now: Instant) {
        if let State::Away { at, attempt: Attempt::None, .. } = &mut self.state {
            *at = now;
            self.attempts = 1;
        }
    }

    /// Sets the time of the next attempt.
    fn schedule(&mut self, now: Instant) {
        let State::Away { since, at, .. } = &mut self.state else { return };
        let pause = match self.attempts.checked_sub(1) {
            None => Duration::ZERO,
            Some(attempt) => match FIRST_PAUSES.get(attempt) {
                Some(pause) => *pause,
                None if now.saturating_duration_since(*since) < LONG_AWAY => PAUSE,
                None => LONG_PAUSE,
            },
        };
        // Pauses count from start to start: an attempt that took long has waited already.
        *at = self.started.map_or(now, |started| now.max(started + pause));
    }

    /// Returns what to do now, once.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        let patience = self.patience();
        match &mut self.state {
            State::Connected { .. } => None,
            State::Over => Some(Action::GiveUp),
            State::Away { since, .. } if now.saturating_duration_since(*since) >= self.grace => {
                self.state = State::Over;
                Some(Action::GiveUp)
            }
            State::Away { at, attempt: Attempt::Started | Attempt::Answered, .. } => {
                (now.saturating_duration_since(*at) >= patience).then_some(Action::Abandon)
            }
            State::Away { at, attempt, .. } if *at <= now => {
                *attempt = Attempt::Started;
                *at = now;
                self.started = Some(now);
                self.attempts += 1;
                Some(Action::Connect)
            }
            State::Away { .. } => None,
        }
    }

    /// Returns the time that an attempt gets to make progress. The kernel repeats the first packet of a
    /// connection after 1, 3 and 7 s: a new attempt finds a path that is back sooner. Every sixteenth attempt
    /// gets as long as the longest path needs, in case the path has become another one.
    fn patience(&self) -> Duration {
        match self.state {
            State::Away { attempt: Attempt::Answered, .. } => STUCK,
            State::Away { attempt: Attempt::Started, .. } if self.attempts.is_multiple_of(16) => STUCK,
            State::Away { attempt: Attempt::Started, .. } => PAUSE.max(self.round_trip * 3).min(STUCK),
            _ => Duration::ZERO,
        }
    }

    /// Returns the time at which to call [`poll`](Self::poll).
    pub fn next_deadline(&self) -> Option<Instant> {
        let State::Away { since, at, .. } = self.state else { return None };
        let wait = self.patience();
        Some((at + wait).min(since + self.grace))
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

/// Silence on a link: it counts as broken when something was expected and nothing came for too long.
#[derive(Debug, Clone)]
pub struct Silence {
    limit: Duration,
    /// Time since which something is expected.
    expecting: Option<Instant>,
    asked: Option<Instant>,
}

impl Silence {
    /// `limit` is the keepalive interval times its count.
    pub const fn new(limit: Duration) -> Self {
        Self { limit, expecting: None, asked: None }
    }

    /// Something was sent that the peer answers: a counted message, a keepalive.
    pub fn on_sent(&mut self, now: Instant) {
        self.expecting.get_or_insert(now);
    }

    /// Something came.
    pub const fn on_received(&mut self) {
        self.expecting = None;
    }

    /// Returns true when the link counts as broken. Call it when the socket has been read, at least each second
    /// while something is expected: after a longer time this process itself was stopped, or the machine
    /// slept, and the period starts again.
    pub fn is_broken(&mut self, now: Instant) -> bool {
        let stopped = self
            .asked
            .replace(now)
            .is_some_and(|asked| now.saturating_duration_since(asked) > Duration::from_secs(3));
        match &mut self.expecting {
            Some(since) if stopped => {
                *since = now;
                false
            }
            Some(since) => now.saturating_duration_since(*since) >= self.limit,
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(600);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Reconnects while nothing answers until `back`; an attempt that is under way or started then succeeds if
    /// its first packet is sent after `back`. Returns when, and after how many attempts.
    fn outage(back: Duration, fails_at_once: bool) -> (Duration, usize) {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        let mut now = start;
        reconnect.on_broken(now);
        loop {
            while let Some(action) = reconnect.poll(now) {
                match action {
                    Action::Connect if now - start >= back => return (now - start, reconnect.attempts),
                    Action::Connect if fails_at_once => reconnect.on_failed(Failure::Path, now),
                    Action::Connect => {}
                    Action::Abandon => reconnect.on_failed(Failure::Path, now),
                    Action::GiveUp => panic!("given up after {:?}", now - start),
                }
            }
            now = reconnect.next_deadline().unwrap().max(now + ms(1));
        }
    }

    #[test]
    fn first_attempt_starts_at_once() {
        assert_eq!(outage(Duration::ZERO, true), (Duration::ZERO, 1));
    }

    #[test]
    fn a_path_that_refuses_is_found_within_a_second() {
        for seconds in 1..110 {
            let (found, attempts) = outage(Duration::from_secs(seconds), true);
            assert!(found <= Duration::from_secs(seconds + 1), "{found:?} after {seconds} s");
            assert!(attempts as u64 <= seconds + 4);
        }
        let (found, attempts) = outage(Duration::from_secs(500), true);
        assert!(found <= Duration::from_secs(505) && attempts < 220, "{attempts} attempts");
    }

    #[test]
    fn a_path_that_was_silent_is_found_as_soon() {
        let late = (1..110).filter(|&seconds| {
            let (found, _) = outage(Duration::from_secs(seconds), false);
            assert!(found <= Duration::from_secs(seconds + 10), "{found:?} after {seconds} s");
            found > Duration::from_secs(seconds + 1)
        });
        // Only while an attempt is under way that has more time.
        assert!(late.count() <= 50);
    }

    #[test]
    fn the_session_is_given_up_when_its_time_is_over() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(Duration::from_secs(60));
        reconnect.on_broken(start);
        assert_eq!(reconnect.poll(start), Some(Action::Connect));
        assert_eq!(reconnect.remaining(start + Duration::from_secs(20)), Some(Duration::from_secs(40)));
        assert_eq!(reconnect.poll(start + Duration::from_secs(60)), Some(Action::GiveUp));
        assert_eq!(reconnect.remaining(start + Duration::from_secs(70)), Some(Duration::ZERO));
        // A refusal is final as well.
        let mut reconnect = Reconnect::new(GRACE);
        reconnect.on_broken(start);
        reconnect.poll(start);
        reconnect.on_failed(Failure::Refused, start);
        assert_eq!(reconnect.poll(start), Some(Action::GiveUp));
    }

    #[test]
    fn stuck_attempts_are_abandoned_and_slow_ones_are_not() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        reconnect.on_broken(start);
        reconnect.poll(start);
        assert_eq!(reconnect.poll(start + ms(999)), None);
        assert_eq!(reconnect.poll(start + ms(1000)), Some(Action::Abandon));
        reconnect.on_failed(Failure::Path, start + ms(1000));
        assert_eq!(reconnect.poll(start + ms(1000)), Some(Action::Connect));
        reconnect.on_progress(start + ms(1900));
        for answer in 1..5 {
            // A server that is slow, but there.
            let now = start + ms(1900 + answer * 9000);
            assert_eq!(reconnect.poll(now), None);
            reconnect.on_progress(now);
        }
        reconnect.on_resumed(start + ms(50_000));
        assert_eq!((reconnect.remaining(start), reconnect.next_deadline()), (None, None));
    }

    #[test]
    fn links_that_break_at_once_are_not_replaced_at_once() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        let mut now = start;
        for _ in 0..60 {
            reconnect.on_broken(now);
            while reconnect.poll(now) != Some(Action::Connect) {
                now = reconnect.next_deadline().unwrap().max(now + ms(1));
            }
            reconnect.on_resumed(now + ms(10));
            now += ms(20);
        }
        assert!(now - start > Duration::from_secs(50), "{:?}", now - start);
        // After a link that lasted, the next attempt starts at once.
        now += SETTLED;
        reconnect.on_broken(now);
        assert_eq!(reconnect.poll(now), Some(Action::Connect));
    }

    #[test]
    fn a_changed_network_is_tried_at_once() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        reconnect.on_broken(start);
        reconnect.poll(start);
        let late = start + Duration::from_secs(200);
        reconnect.attempts = 50;
        reconnect.started = Some(late);
        reconnect.on_failed(Failure::Path, late);
        assert_eq!(reconnect.poll(late + ms(10)), None);
        reconnect.on_network_changed(late + ms(10));
        assert_eq!(reconnect.poll(late + ms(10)), Some(Action::Connect));
    }

    #[test]
    fn silence_breaks_a_link_only_where_an_answer_is_due() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut silence = Silence::new(Duration::from_secs(45));
        assert!((0..1000).all(|s| !silence.is_broken(at(s))));
        silence.on_sent(at(1000));
        silence.on_sent(at(1040));
        assert!((1000..1045).all(|s| !silence.is_broken(at(s))));
        assert!(silence.is_broken(at(1045)));
        silence.on_received();
        assert!(!silence.is_broken(at(1046)));
    }

    #[test]
    fn a_process_that_was_stopped_waits_anew() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut silence = Silence::new(Duration::from_secs(45));
        silence.on_sent(at(0));
        assert!(!silence.is_broken(at(1)));
        assert!(!silence.is_broken(at(3600)));
        assert!((3601..3645).all(|s| !silence.is_broken(at(s))));
        assert!(silence.is_broken(at(3645)));
    }
}
