//! When to connect again, and for how long: `--retries` counts attempts, `--retry-for` the time without
//! progress.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lh_sys::signals::Signals;
use lh_transfer::Summary;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::events;
use crate::retry_limit::RetryLimit;
use crate::show::{print, say};

/// The longest pause before trying again.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Signals that end a pause, and the copy.
pub(crate) const STOP: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Collects the signals that end a pause, and the copy, but for those that this process was started to
/// ignore (`nohup`). `None` without a descriptor.
pub(crate) fn stop_signals() -> Option<Signals> {
    Signals::collect(&lh_sys::signals::not_ignored(&STOP)).ok()
}

/// Next step after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another attempt, now.
    Again,
    /// No further attempt: the number of attempts or the time is used up.
    GiveUp,
    /// A signal has come during the pause.
    Interrupted,
}

/// An attempt that was counted, to be announced.
#[derive(Debug)]
pub(crate) struct NextAttempt {
    /// Time until then.
    pub(crate) pause: Duration,
    text: String,
    /// Attempts left after this one.
    left: Option<u32>,
    /// Seconds left of `--retry-for`.
    seconds_left: Option<u64>,
    tells_programs: bool,
}

impl NextAttempt {
    pub(crate) fn announce(&self) {
        let seconds = self.pause.as_secs_f64().round() as u64;
        say(&format!("connection lost; connecting again in {seconds} s ({})", self.text));
        if self.tells_programs {
            print(&events::retry(seconds, self.left.map(u64::from), self.seconds_left));
        }
    }
}

/// Attempts of one copy, whichever of its connections makes them: to resume a session, or to log in anew.
#[derive(Debug)]
pub(crate) struct Attempts {
    retry_limit: RetryLimit,
    /// Attempts left of [`RetryLimit::Usual`] and [`RetryLimit::Times`].
    left: u32,
    pause: Duration,
    /// When something was copied last, or the first attempt began, later by the time that connections without
    /// progress have lasted since.
    progress: Instant,
    /// Since when there is a connection.
    connected: Option<Instant>,
    /// The most files that an attempt had complete, those of earlier ones included.
    files: u64,
    /// Bytes that the present job had copied when it was noted last.
    bytes: u64,
    /// Attempts are reported to programs, too (`--json`).
    tells_programs: bool,
    /// Time of an attempt to resume the session that was announced. If the server does not have the session,
    /// the login that follows is this attempt.
    announced: Option<Instant>,
    /// No attempts are left: neither the session nor another login is tried again.
    is_over: bool,
}

impl Attempts {
    pub(crate) fn new(retry_limit: RetryLimit, tells_programs: bool) -> Self {
        Self {
            retry_limit,
            left: retry_limit.times(),
            pause: Duration::from_secs(1),
            progress: Instant::now(),
            connected: None,
            files: 0,
            bytes: 0,
            tells_programs,
            announced: None,
            is_over: false,
        }
    }

    /// Another job begins, whose bytes count from 0.
    pub(crate) const fn begin_job(&mut self) {
        self.bytes = 0;
    }

    /// The connection is lost, or could not be made. Waits, and says so. An attempt that got something done
    /// makes up for those before it. `attempts` is not locked while it waits.
    pub(crate) fn again(attempts: &Mutex<Self>, summary: &Summary) -> Next {
        // Who reads that there is a pause may end it at once.
        let signals = stop_signals();
        let pause = locked(attempts).pause_before_login(summary, Instant::now());
        let Some(pause) = pause else {
            // A signal of this moment ends the program as any other.
            signals.into_iter().for_each(Signals::release);
            return Next::GiveUp;
        };
        if wait(pause, signals) { Next::Again } else { Next::Interrupted }
    }

    /// Announces that the copy logs in again, or gives up. Returns the pause before the login.
    pub(crate) fn pause_before_login(&mut self, summary: &Summary, now: Instant) -> Option<Duration> {
        self.note(summary, now);
        self.on_lost(now);
        if let Some(at) = self.announced.take().filter(|_| !self.is_over(now)) {
            return Some(at.saturating_duration_since(now));
        }
        let Some(next) = self.count(now) else {
            if let RetryLimit::For(time) = self.retry_limit {
                say(&format!("no progress for {}: giving up", in_words(time)));
            }
            return None;
        };
        next.announce();
        Some(next.pause)
    }

    /// Counts another attempt to resume the session; `None` when it is enough. A login takes the place of
    /// this attempt when the session ends before the next one is counted.
    pub(crate) fn count_resumption(&mut self, now: Instant) -> Option<NextAttempt> {
        let next = self.count(now);
        self.announced = next.as_ref().map(|next| now + next.pause);
        next
    }

    /// Counts another attempt; `None` when it is enough.
    fn count(&mut self, now: Instant) -> Option<NextAttempt> {
        if self.is_over(now) {
            self.is_over = true;
            return None;
        }
        let (pause, text, left, seconds_left) = match self.retry_limit {
            RetryLimit::Usual | RetryLimit::Times(_) => {
                let Some(left) = self.left.checked_sub(1) else {
                    self.is_over = true;
                    return None;
                };
                self.left = left;
                let text = match left {
                    0 => "the last attempt".to_owned(),
                    left => format!("{left} more after that"),
                };
                (self.pause, text, Some(left), None)
            }
            RetryLimit::For(time) => {
                let left = self.time_left(time, now);
                self.pause = self.pause.min(left);
                let pause = jittered(self.pause, RandomState::new().build_hasher().finish());
                (pause, format!("for another {}", in_words(left)), None, Some(left.as_secs()))
            }
        };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Some(NextAttempt { pause, text, left, seconds_left, tells_programs: self.tells_programs })
    }

    /// Returns the time left of `--retry-for`.
    fn time_left(&self, time: Duration, now: Instant) -> Duration {
        time.saturating_sub(now.saturating_duration_since(self.progress))
    }

    /// Records what the present job has copied.
    pub(crate) fn note(&mut self, summary: &Summary, now: Instant) {
        if !self.is_over && (summary.bytes > self.bytes || summary.files > self.files) {
            let (files, bytes) = (self.files.max(summary.files), self.bytes.max(summary.bytes));
            *self = Self { files, bytes, ..self.renewed(now) };
        }
    }

    /// Notes a connection: a login has succeeded, or the session goes on. It used the announced attempt.
    pub(crate) fn on_connected(&mut self, now: Instant) {
        (self.connected, self.announced) = (Some(now), None);
    }

    /// Notes a lost connection. Its duration does not count as time without progress, because the server may
    /// have listed directories or read files for their checksums.
    pub(crate) fn on_lost(&mut self, now: Instant) {
        if let Some(since) = self.connected.take() {
            self.progress += now.saturating_duration_since(since);
        }
    }

    /// Notes a connection whose server is silent: its duration counts as time without progress.
    pub(crate) const fn on_silent(&mut self) {
        self.connected = None;
    }

    /// Notes that a session without a job goes on, which counts as progress.
    pub(crate) fn on_progress(&mut self, now: Instant) {
        *self = self.renewed(now);
    }

    /// Returns the state with all attempts left, after progress at `now`.
    fn renewed(&self, now: Instant) -> Self {
        Self { progress: now, ..Self::new(self.retry_limit, self.tells_programs) }
    }

    /// Returns whether no attempt may follow.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        let is_late =
            matches!(self.retry_limit, RetryLimit::For(time) if self.time_left(time, now).is_zero());
        self.is_over || is_late
    }

    /// Returns when `--retry-for` ends the copy.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.retry_limit {
            RetryLimit::Usual | RetryLimit::Times(_) => None,
            RetryLimit::For(time) => self.progress.checked_add(time),
        }
    }
}

/// Locks the attempts that the connections of a copy share.
pub(crate) fn locked(attempts: &Mutex<Attempts>) -> MutexGuard<'_, Attempts> {
    attempts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Between three quarters of `pause` and all of it: clients that lost one server at once shall not come back
/// at once.
fn jittered(pause: Duration, random: u64) -> Duration {
    pause.mul_f64(0.75 + 0.25 * (random as f64 / u64::MAX as f64))
}

/// A time as `--retry-for` takes it.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, 0, _) => format!("{hours}h"),
        (hours, minutes, _) => format!("{hours}h{minutes}m"),
    }
}

/// Waits; false when a signal came.
fn wait(pause: Duration, signals: Option<Signals>) -> bool {
    let Some(signals) = signals else {
        std::thread::sleep(pause);
        return true;
    };
    let until = Instant::now() + pause;
    let mut came = false;
    while !came {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let mut fds = [PollFd::new(&signals, PollFlags::IN)];
        // Interrupted: what is left is waited for again.
        let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        came = matches!(signals.take(), Ok(Some(_)));
    }
    signals.release();
    !came
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_earns_new_attempts() {
        let now = Instant::now();
        let mut attempts = Attempts::new(RetryLimit::Times(2), false);
        attempts.left = 0;
        attempts.pause = Duration::from_secs(32);
        attempts.note(&Summary { bytes: 1, ..Summary::default() }, now);
        assert_eq!((attempts.left, attempts.pause), (2, Duration::from_secs(1)));
        // The same bytes are no progress, those of another job are.
        attempts.left = 0;
        attempts.note(&Summary { bytes: 1, ..Summary::default() }, now);
        assert_eq!(attempts.left, 0);
        attempts.begin_job();
        attempts.note(&Summary { bytes: 1, ..Summary::default() }, now);
        assert_eq!(attempts.left, 2);
        let moved = Summary { files: 1, ..Summary::default() };
        let none = Mutex::new(Attempts::new(RetryLimit::Times(0), false));
        assert_eq!(Attempts::again(&none, &moved), Next::GiveUp);
    }

    #[test]
    fn files_of_earlier_attempts_are_no_progress() {
        let mut attempts = Attempts::new(RetryLimit::For(Duration::from_secs(60)), false);
        let there = Summary { files: 5, ..Summary::default() };
        attempts.note(&there, Instant::now());
        let before = attempts.progress;
        attempts.pause = Duration::from_secs(32);
        attempts.note(&there, Instant::now());
        assert_eq!((attempts.progress, attempts.pause), (before, Duration::from_secs(32)));
        let late = Mutex::new(Attempts::new(RetryLimit::For(Duration::ZERO), false));
        assert_eq!(Attempts::again(&late, &Summary::default()), Next::GiveUp);
    }

    /// A phase without bytes may take longer: what ends a copy is the time without a connection.
    #[test]
    fn time_with_a_connection_is_not_without_progress() {
        let minute = Duration::from_secs(60);
        let mut attempts = Attempts::new(RetryLimit::For(10 * minute), false);
        let mut now = attempts.progress;
        attempts.on_connected(now);
        now += 60 * minute;
        assert!(attempts.pause_before_login(&Summary::default(), now).is_some());
        attempts.on_connected(now);
        // The connection comes back nine times for a minute each, without progress.
        for _ in 0..9 {
            attempts.on_lost(now);
            now += minute;
            assert!(!attempts.is_over(now));
            attempts.on_connected(now);
            now += minute;
        }
        attempts.on_lost(now);
        assert!(!attempts.is_over(now));
        assert_eq!(attempts.deadline(), Some(now + minute));
        assert!(attempts.is_over(now + minute));
        // Progress before a loss counts as of the loss.
        attempts.on_connected(now);
        now += minute;
        attempts.note(&Summary { bytes: 1, ..Summary::default() }, now);
        attempts.on_lost(now);
        assert_eq!(attempts.deadline(), Some(now + 10 * minute));
    }

    #[test]
    fn time_with_a_silent_server_is_without_progress() {
        let minute = Duration::from_secs(60);
        let mut attempts = Attempts::new(RetryLimit::For(10 * minute), false);
        let begun = attempts.progress;
        attempts.on_connected(begun);
        attempts.on_silent();
        assert!(attempts.pause_before_login(&Summary::default(), begun + 5 * minute).is_some());
        attempts.on_connected(begun + 5 * minute);
        attempts.on_silent();
        assert!(attempts.pause_before_login(&Summary::default(), begun + 10 * minute).is_none());
    }

    #[test]
    fn pauses_differ_and_are_no_longer_than_announced() {
        let pause = Duration::from_secs(60);
        assert_eq!(jittered(pause, 0), Duration::from_secs(45));
        assert_eq!(jittered(pause, u64::MAX), pause);
        let words = [0, 59, 60, 90, 3600, 43_199].map(|seconds| in_words(Duration::from_secs(seconds)));
        assert_eq!(words, ["0s", "59s", "1m", "1m30s", "1h", "11h59m"]);
    }
}
