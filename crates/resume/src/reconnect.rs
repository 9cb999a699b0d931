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

/// Attempts that may be under way at a time.
const BESIDE: usize = 2;

/// Time that a resumed link must last before the next break is tried at once again. An attacker who resets each
/// link would otherwise make both ends exchange keys without a pause.
const SETTLED: Duration = Duration::from_secs(10);

/// Number of an attempt of a [`Reconnect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptId(u64);

/// Next action of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Make a connection, and claim the session on it, unless another attempt has done so.
    Connect(AttemptId),
    /// Close the connection that this attempt makes: it does not get on. Report that it has failed before the next
    /// question for what to do.
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

/// Reconnecting in virtual time. Another attempt begins beside one that may take long and makes no progress, as
/// after the server's first answer: the path may have been lost again, and be back. It replaces the older of two.
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
            (attempt.at, attempt.patience) = (now, STUCK);
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
        self.numbered += 1;
        let id = AttemptId(self.numbered);
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
    /// answer may be the peer's only one for two of them. Each attempt that was replaced doubles it: a server may take
    /// seconds to check the account, and attempts that replace each other sooner would never end.
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

    fn connect(reconnect: &mut Reconnect, now: Instant) -> AttemptId {
        match reconnect.poll(now) {
            Some(Action::Connect(id)) => id,
            other => panic!("{other:?}"),
        }
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
                    Action::Connect(_) if now - start >= back => return (now - start, reconnect.attempts),
                    Action::Connect(id) if fails_at_once => reconnect.on_failed(id, Failure::Path, now),
                    Action::Connect(_) => {}
                    Action::Abandon(id) => reconnect.on_failed(id, Failure::Path, now),
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
        for seconds in 1..110 {
            let (found, attempts) = outage(Duration::from_secs(seconds), false);
            assert!(found <= Duration::from_secs(seconds + 1), "{found:?} after {seconds} s");
            assert!(attempts as u64 <= seconds + 4);
        }
    }

    #[test]
    fn the_session_is_given_up_when_its_time_is_over() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(Duration::from_secs(60));
        reconnect.on_broken(start);
        connect(&mut reconnect, start);
        assert_eq!(reconnect.remaining(start + Duration::from_secs(20)), Some(Duration::from_secs(40)));
        assert_eq!(reconnect.poll(start + Duration::from_secs(60)), Some(Action::GiveUp));
        assert_eq!(reconnect.remaining(start + Duration::from_secs(70)), Some(Duration::ZERO));
        // A refusal is final as well.
        let mut reconnect = Reconnect::new(GRACE);
        reconnect.on_broken(start);
        let id = connect(&mut reconnect, start);
        reconnect.on_failed(id, Failure::Refused, start);
        assert_eq!(reconnect.poll(start), Some(Action::GiveUp));
    }

    /// Another host at the server's address must not end the session, nor make the client exchange keys
    /// without a pause.
    #[test]
    fn other_hosts_at_the_address_do_not_end_the_session() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        let mut now = start;
        reconnect.on_broken(now);
        for _ in 0..20 {
            let id = connect(&mut reconnect, now);
            reconnect.on_failed(id, Failure::Elsewhere, now + ms(30));
            assert_eq!(reconnect.poll(now + ms(4999)), None);
            now += LONG_PAUSE;
            assert_eq!(reconnect.next_deadline(), Some(now));
        }
        // Another network is tried at once: what an attempt over the last one met does not count.
        let id = connect(&mut reconnect, now);
        reconnect.on_network_changed(now + ms(500));
        reconnect.on_failed(id, Failure::Elsewhere, now + ms(600));
        now += PAUSE;
        let id = connect(&mut reconnect, now);
        reconnect.on_failed(id, Failure::Elsewhere, now + ms(30));
        reconnect.on_network_changed(now + ms(300));
        connect(&mut reconnect, now + ms(300));
        // The time of the session is not prolonged.
        assert_eq!(reconnect.poll(start + GRACE), Some(Action::GiveUp));
    }

    #[test]
    fn stuck_attempts_are_abandoned_and_slow_ones_are_not() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        reconnect.on_broken(start);
        let id = connect(&mut reconnect, start);
        assert_eq!(reconnect.poll(start + ms(999)), None);
        assert_eq!(reconnect.poll(start + ms(1000)), Some(Action::Abandon(id)));
        reconnect.on_failed(id, Failure::Path, start + ms(1000));
        let id = connect(&mut reconnect, start + ms(1000));
        reconnect.on_progress(id, start + ms(1900));
        for answer in 1..5 {
            // A server that is slow, but there.
            let now = start + ms(1900 + answer * 900);
            assert_eq!(reconnect.poll(now), None);
            reconnect.on_progress(id, now);
        }
        reconnect.on_resumed(start + ms(50_000));
        assert_eq!((reconnect.remaining(start), reconnect.next_deadline()), (None, None));
    }

    #[test]
    fn a_second_attempt_begins_beside_one_that_is_silent() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        reconnect.on_broken(start);
        let first = connect(&mut reconnect, start);
        reconnect.on_progress(first, start + ms(100));
        assert_eq!(reconnect.next_deadline(), Some(start + ms(1100)));
        // The path is lost after the first answer. Those that begin meanwhile fail, once a second.
        for second in 0..5 {
            let id = connect(&mut reconnect, start + ms(1100 + second * 1000));
            assert_eq!(reconnect.poll(start + ms(2099 + second * 1000)), None);
            assert_eq!(reconnect.poll(start + ms(2100 + second * 1000)), Some(Action::Abandon(id)));
            reconnect.on_failed(id, Failure::Path, start + ms(2100 + second * 1000));
        }
        // It is back: the next one gets on, and nothing begins beside it for as long as it does.
        let last = connect(&mut reconnect, start + ms(6100));
        for progress in 0..4 {
            reconnect.on_progress(last, start + ms(6200 + progress * 950));
            assert_eq!(reconnect.poll(start + ms(7100 + progress * 950)), None);
        }
        // An attempt that was given up says nothing any more.
        assert_eq!(reconnect.poll(start + ms(10_100)), Some(Action::Abandon(first)));
        reconnect.on_failed(first, Failure::Path, start + ms(10_100));
        reconnect.on_failed(first, Failure::Refused, start + ms(10_100));
        reconnect.on_progress(first, start + ms(10_100));
        reconnect.on_resumed(start + ms(10_100));
        assert_eq!(reconnect.next_deadline(), None);
    }

    /// Attempts that get on and are cut off one after the other must not hold up the next one for [`STUCK`].
    #[test]
    fn two_silent_attempts_do_not_hold_up_a_third() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        reconnect.on_broken(start);
        let first = connect(&mut reconnect, start);
        reconnect.on_progress(first, start + ms(100));
        let second = connect(&mut reconnect, start + ms(1100));
        reconnect.on_progress(second, start + ms(1200));
        assert_eq!(reconnect.poll(start + ms(2199)), None);
        assert_eq!(reconnect.next_deadline(), Some(start + ms(2200)));
        assert_eq!(reconnect.poll(start + ms(2200)), Some(Action::Abandon(first)));
        reconnect.on_failed(first, Failure::Path, start + ms(2200));
        // It was replaced, so the second one gets twice the time.
        assert_eq!(reconnect.poll(start + ms(3199)), None);
        connect(&mut reconnect, start + ms(3200));
    }

    /// A server may take seconds to check the account of a claim, and the last claim is the one that counts.
    #[test]
    fn claims_do_not_replace_each_other_for_ever() {
        for check in [0, 900, 2_000, 4_000, 8_000] {
            let start = Instant::now();
            let (reached, check) = (ms(50), ms(check));
            let mut reconnect = Reconnect::new(GRACE);
            reconnect.on_broken(start);
            let mut now = start;
            // Attempts, when they reach the server, and when their claims are answered.
            let mut under_way: Vec<(AttemptId, Instant, bool)> = Vec::new();
            let resumed = loop {
                while let Some(action) = reconnect.poll(now) {
                    match action {
                        Action::Connect(id) => under_way.push((id, now + reached, false)),
                        Action::Abandon(id) => {
                            under_way.retain(|attempt| attempt.0 != id);
                            reconnect.on_failed(id, Failure::Path, now);
                        }
                        Action::GiveUp => panic!("given up after {:?}", now - start),
                    }
                }
                let next = under_way.iter().map(|attempt| attempt.1).chain(reconnect.next_deadline()).min();
                now = next.unwrap().max(now);
                let Some(index) = under_way.iter().position(|attempt| attempt.1 <= now) else { continue };
                let (id, _, has_claimed) = under_way[index];
                if has_claimed {
                    break now - start;
                }
                reconnect.on_progress(id, now);
                under_way[index] = (id, now + check, true);
                under_way.retain(|(other, _, has_claimed)| {
                    let is_replaced = *other != id && *has_claimed;
                    if is_replaced {
                        reconnect.on_replaced(*other, now);
                    }
                    !is_replaced
                });
            };
            assert!(resumed <= reached + check * 4, "{resumed:?} for checks of {check:?}");
        }
    }

    #[test]
    fn a_long_path_gets_time_before_a_second_attempt() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        reconnect.set_round_trip(ms(600));
        reconnect.on_broken(start);
        let first = connect(&mut reconnect, start);
        reconnect.on_progress(first, start + ms(600));
        assert_eq!(reconnect.poll(start + ms(2900)), None);
        connect(&mut reconnect, start + ms(3000));
    }

    #[test]
    fn a_changed_network_is_tried_beside_an_attempt() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        reconnect.on_broken(start);
        let first = connect(&mut reconnect, start);
        // Too soon after the last start.
        reconnect.on_network_changed(start + ms(100));
        assert_eq!(reconnect.poll(start + ms(249)), None);
        let second = connect(&mut reconnect, start + ms(250));
        assert_ne!(first, second);
        assert_eq!(reconnect.poll(start + ms(600)), None);
        // The oldest one makes way for the third.
        reconnect.on_network_changed(start + ms(600));
        assert_eq!(reconnect.poll(start + ms(600)), Some(Action::Abandon(first)));
        reconnect.on_failed(first, Failure::Path, start + ms(600));
        reconnect.on_network_changed(start + ms(600));
        connect(&mut reconnect, start + ms(600));
    }

    #[test]
    fn links_that_break_at_once_are_not_replaced_at_once() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        let mut now = start;
        for _ in 0..60 {
            reconnect.on_broken(now);
            while !matches!(reconnect.poll(now), Some(Action::Connect(_))) {
                now = reconnect.next_deadline().unwrap().max(now + ms(1));
            }
            reconnect.on_resumed(now + ms(10));
            now += ms(20);
        }
        assert!(now - start > Duration::from_secs(50), "{:?}", now - start);
        // After a link that lasted, the next attempt starts at once.
        now += SETTLED;
        reconnect.on_broken(now);
        connect(&mut reconnect, now);
    }

    #[test]
    fn a_changed_network_is_tried_at_once() {
        let start = Instant::now();
        let mut reconnect = Reconnect::new(GRACE);
        reconnect.on_broken(start);
        let id = connect(&mut reconnect, start);
        let late = start + Duration::from_secs(200);
        reconnect.attempts = 50;
        reconnect.started = Some(late);
        reconnect.on_failed(id, Failure::Path, late);
        assert_eq!(reconnect.poll(late + ms(300)), None);
        reconnect.on_network_changed(late + ms(300));
        connect(&mut reconnect, late + ms(300));
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
