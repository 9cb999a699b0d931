//! When to connect again, and for how long: `--retries` counts attempts, `--retry-for` the time without
//! progress.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
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

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another attempt, now.
    Again,
    /// It is enough.
    GiveUp,
    /// A signal has come during the pause.
    Interrupted,
}

/// Attempts of one copy.
#[derive(Debug)]
pub(crate) struct Attempts {
    retry_limit: RetryLimit,
    /// Of [`RetryLimit::Times`].
    left: u32,
    pause: Duration,
    /// When something was copied last, or the first attempt began.
    progress: Instant,
    /// The most files that an attempt had complete, those of earlier ones included.
    files: u64,
}

impl Attempts {
    pub(crate) fn new(retry_limit: RetryLimit) -> Self {
        let left = match retry_limit {
            RetryLimit::Times(times) => times,
            RetryLimit::For(_) => 0,
        };
        Self { retry_limit, left, pause: Duration::from_secs(1), progress: Instant::now(), files: 0 }
    }

    /// The connection is lost, or could not be made. Waits, and says so. An attempt that got something done
    /// makes up for those before it.
    pub(crate) fn again(&mut self, summary: &Summary, tells_programs: bool) -> Next {
        self.note(summary);
        let (text, left, seconds_left) = match self.retry_limit {
            RetryLimit::Times(_) => {
                let Some(left) = self.left.checked_sub(1) else { return Next::GiveUp };
                self.left = left;
                let text = match left {
                    0 => "the last attempt".to_owned(),
                    left => format!("{left} more after that"),
                };
                (text, Some(left), None)
            }
            RetryLimit::For(time) => {
                let left = time.saturating_sub(self.progress.elapsed());
                if left.is_zero() {
                    say(&format!("no progress for {}: giving up", in_words(time)));
                    return Next::GiveUp;
                }
                self.pause = self.pause.min(left);
                (format!("for another {}", in_words(left)), None, Some(left.as_secs()))
            }
        };
        let pause = match self.retry_limit {
            RetryLimit::Times(_) => self.pause,
            RetryLimit::For(_) => jittered(self.pause, RandomState::new().build_hasher().finish()),
        };
        let seconds = pause.as_secs_f64().round() as u64;
        // Who reads that there is a pause may end it at once.
        let signals = Signals::collect(&STOP).ok();
        say(&format!("connection lost; connecting again in {seconds} s ({text})"));
        if tells_programs {
            print(&events::retry(seconds, left.map(u64::from), seconds_left));
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        if wait(pause, signals) { Next::Again } else { Next::Interrupted }
    }

    fn note(&mut self, summary: &Summary) {
        if summary.bytes > 0 || summary.files > self.files {
            let files = self.files.max(summary.files);
            *self = Self { files, ..Self::new(self.retry_limit) };
        }
    }
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
        let mut attempts = Attempts::new(RetryLimit::Times(2));
        attempts.left = 0;
        assert_eq!(attempts.again(&Summary::default(), false), Next::GiveUp);
        attempts.pause = Duration::from_secs(32);
        attempts.note(&Summary { bytes: 1, ..Summary::default() });
        assert_eq!((attempts.left, attempts.pause), (2, Duration::from_secs(1)));
        let moved = Summary { files: 1, ..Summary::default() };
        assert_eq!(Attempts::new(RetryLimit::Times(0)).again(&moved, false), Next::GiveUp);
    }

    #[test]
    fn files_of_earlier_attempts_are_no_progress() {
        let mut attempts = Attempts::new(RetryLimit::For(Duration::from_secs(60)));
        let there = Summary { files: 5, ..Summary::default() };
        attempts.note(&there);
        let before = attempts.progress;
        attempts.pause = Duration::from_secs(32);
        attempts.note(&there);
        assert_eq!((attempts.progress, attempts.pause), (before, Duration::from_secs(32)));
        let mut late = Attempts::new(RetryLimit::For(Duration::ZERO));
        assert_eq!(late.again(&Summary::default(), false), Next::GiveUp);
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
