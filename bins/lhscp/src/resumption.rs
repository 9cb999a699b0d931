//! The limits of `--retries` and `--retry-for` for sessions that are resumed (`Resume`): an attempt to resume
//! counts like one to log in.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lh_client::{AttemptFailure, ResumeLimit};
use lh_ssh_transfer::Connection;
use lh_transfer::Job;

use crate::command_line::Arguments;
use crate::retry::{Attempts, NextAttempt, locked};
use crate::show::{print, shows_meter};

/// Time without an answer after which the first attempt counts: a key exchange over the longest path takes
/// less.
const FIRST_SILENCE: Duration = Duration::from_secs(10);

/// Time without an answer after which a later attempt counts, without `ConnectTimeout`: that after which the
/// kernel gives up a connection, about.
const SILENCE: Duration = Duration::from_secs(120);

/// Limits the attempts to resume the session of `connection`, which has logged in, by those of the copy.
/// `job`: what is copied makes up for earlier attempts; without a job a session that goes on does.
pub(crate) fn limit(
    connection: &mut Connection,
    attempts: Arc<Mutex<Attempts>>,
    job: Option<&Job>,
    arguments: &Arguments,
) {
    locked(&attempts).on_connected(Instant::now());
    let silence = connection.connect_timeout().unwrap_or(SILENCE);
    let limit = Limit {
        attempts,
        job: job.cloned(),
        meter: shows_meter(arguments),
        // Relays and the old protocol have no job here.
        can_log_in: job.is_some() && arguments.can_log_in_again(),
        silence,
        away: None,
    };
    connection.limit_resumption(Box::new(limit));
}

struct Limit {
    attempts: Arc<Mutex<Attempts>>,
    job: Option<Job>,
    /// The progress meter is shown, whose line messages must not continue.
    meter: bool,
    /// The copy logs in when the session has ended.
    can_log_in: bool,
    silence: Duration,
    away: Option<Away>,
}

/// A session without a connection.
#[derive(Clone, Copy)]
struct Away {
    /// Failures before this time belong to an attempt that was counted.
    next: Instant,
    /// Without an answer until this time, an attempt has failed.
    silent_until: Instant,
}

impl Limit {
    /// Counts an attempt that has failed, and announces the next one.
    fn count(&mut self, now: Instant) {
        let Some(next) = self.next_attempt(now) else { return };
        if self.meter {
            print("\n");
        }
        next.announce();
    }

    /// Returns the attempt to announce after one that has failed. Says nothing when it is enough: the end is
    /// reported when the session has ended.
    fn next_attempt(&mut self, now: Instant) -> Option<NextAttempt> {
        let counted = locked(&self.attempts).count_resumption(now)?;
        let next = now + counted.pause;
        self.away = Some(Away { next, silent_until: next + self.silence });
        Some(counted)
    }
}

impl ResumeLimit for Limit {
    fn on_lost(&mut self, now: Instant) {
        let summary = self.job.as_ref().map(Job::summary);
        let mut attempts = locked(&self.attempts);
        summary.iter().for_each(|summary| attempts.note(summary, now));
        attempts.on_lost(now);
        drop(attempts);
        self.away = Some(Away { next: now, silent_until: now + FIRST_SILENCE.min(self.silence) });
    }

    fn on_failed(&mut self, failure: AttemptFailure, now: Instant) {
        // A network that is down comes back: it counts by its time.
        if failure == AttemptFailure::Ended && self.away.is_some_and(|away| away.next <= now) {
            self.count(now);
        }
    }

    fn on_resumed(&mut self, now: Instant) {
        self.away = None;
        let mut attempts = locked(&self.attempts);
        if self.job.is_none() {
            attempts.on_progress(now);
        }
        attempts.on_connected(now);
    }

    fn is_over(&mut self, now: Instant) -> bool {
        if self.away.is_some_and(|away| away.silent_until <= now) {
            self.count(now);
        }
        locked(&self.attempts).is_over(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let silent_until = self.away.map(|away| away.silent_until);
        silent_until.into_iter().chain(locked(&self.attempts).deadline()).min()
    }

    fn can_log_in(&self) -> bool {
        self.can_log_in
    }
}

#[cfg(test)]
mod tests {
    use lh_transfer::Summary;

    use super::*;
    use crate::retry_limit::RetryLimit;

    fn new(attempts: Arc<Mutex<Attempts>>) -> Limit {
        Limit { attempts, job: None, meter: false, can_log_in: true, silence: SILENCE, away: None }
    }

    fn away(retry_limit: RetryLimit, now: Instant) -> Limit {
        let attempts = Arc::new(Mutex::new(Attempts::new(retry_limit, false)));
        let mut limit = new(attempts);
        limit.on_lost(now);
        limit
    }

    /// Times in seconds after the loss at which the session is given up, where attempts fail every quarter of
    /// a second.
    fn end(times: u32, failure: AttemptFailure) -> f64 {
        let start = Instant::now();
        let mut limit = away(RetryLimit::Times(times), start);
        let mut after = Duration::ZERO;
        while !limit.is_over(start + after) {
            after += Duration::from_millis(250);
            limit.on_failed(failure, start + after);
        }
        after.as_secs_f64()
    }

    #[test]
    fn refused_attempts_count_like_logins() {
        // Pauses of 1, 2 and 4 s, and up to a quarter of a second each until the next failure.
        assert!((7.25..8.25).contains(&end(3, AttemptFailure::Ended)));
        assert!(end(0, AttemptFailure::Ended) <= 0.25);
    }

    /// A server that is started again does not have the session: the copy logs in where the next attempt to
    /// resume the session would have been, as often as without resumption.
    #[test]
    fn a_login_is_the_attempt_that_was_announced() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut limit = away(RetryLimit::Times(3), start);
        for seconds in [0, 1, 3] {
            limit.on_failed(AttemptFailure::Ended, at(seconds));
        }
        let pause = |limit: &Limit, seconds| {
            locked(&limit.attempts).pause_before_login(&Summary::default(), at(seconds))
        };
        // The server refuses the session at 5 s.
        assert_eq!(pause(&limit, 5), Some(Duration::from_secs(2)));
        assert_eq!(pause(&limit, 7), None);
        assert!(limit.is_over(at(7)));

        // The attempt that was announced is under way: the login follows at once.
        let mut limit = away(RetryLimit::Times(1), start);
        limit.on_failed(AttemptFailure::Ended, start);
        assert_eq!(pause(&limit, 2), Some(Duration::ZERO));
        assert_eq!(pause(&limit, 2), None);

        // None was announced.
        let limit = away(RetryLimit::Times(1), start);
        assert_eq!(pause(&limit, 0), Some(Duration::from_secs(1)));
        assert_eq!(pause(&limit, 1), None);
    }

    #[test]
    fn a_session_that_goes_on_uses_the_announced_attempt() {
        let now = Instant::now();
        let mut limit = away(RetryLimit::Times(1), now);
        limit.on_failed(AttemptFailure::Ended, now);
        let mut attempts = locked(&limit.attempts);
        attempts.on_connected(now);
        assert_eq!(attempts.pause_before_login(&Summary::default(), now), None);
    }

    #[test]
    fn the_time_without_progress_also_ends_announced_attempts() {
        let now = Instant::now();
        let mut limit = away(RetryLimit::For(Duration::from_secs(60)), now);
        limit.on_failed(AttemptFailure::Ended, now);
        let late = now + Duration::from_secs(61);
        assert_eq!(locked(&limit.attempts).pause_before_login(&Summary::default(), late), None);
    }

    #[test]
    fn nothing_is_announced_after_the_last_attempt() {
        let now = Instant::now();
        let mut limit = away(RetryLimit::Times(1), now);
        assert!(limit.next_attempt(now).is_some());
        for _ in 0..2 {
            assert!(limit.next_attempt(now).is_none());
        }
        assert!(limit.is_over(now));
    }

    #[test]
    fn silent_attempts_count_by_their_time() {
        assert_eq!(end(0, AttemptFailure::NoAnswer), 10.0);
        assert_eq!(end(3, AttemptFailure::NoAnswer), 10.0 + 121.0 + 122.0 + 124.0);
    }

    #[test]
    fn a_session_that_goes_on_has_all_attempts_again() {
        let now = Instant::now();
        let mut limit = away(RetryLimit::Times(1), now);
        limit.on_failed(AttemptFailure::Ended, now);
        limit.on_resumed(now);
        assert_eq!(limit.next_deadline(), None);
        limit.on_lost(now);
        limit.on_failed(AttemptFailure::Ended, now);
        assert!(!limit.is_over(now));
        limit.on_failed(AttemptFailure::Ended, now + Duration::from_secs(1));
        assert!(limit.is_over(now + Duration::from_secs(1)));
    }

    #[test]
    fn a_session_that_lasted_longer_than_the_time_survives_a_break() {
        let login = Instant::now();
        let attempts = Attempts::new(RetryLimit::For(Duration::from_secs(600)), false);
        let attempts = Arc::new(Mutex::new(attempts));
        locked(&attempts).on_connected(login);
        let mut limit = new(attempts);
        let mut lost = login;
        for _ in 0..3 {
            lost += Duration::from_secs(660);
            limit.on_lost(lost);
            assert!(!limit.is_over(lost));
            limit.on_resumed(lost);
        }
        limit.on_lost(lost);
        assert!(limit.is_over(lost + Duration::from_secs(601)));
    }

    #[test]
    fn the_time_without_progress_ends_a_session() {
        let now = Instant::now();
        let mut limit = away(RetryLimit::For(Duration::from_secs(3600)), now);
        assert!(!limit.is_over(now) && limit.next_deadline().is_some_and(|at| at <= now + FIRST_SILENCE));
        assert!(away(RetryLimit::For(Duration::ZERO), now).is_over(now));
    }
}
