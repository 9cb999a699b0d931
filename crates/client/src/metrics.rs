//! `Metrics`: TCP and SSH metrics of both ends, written to files during the connection.
//!
//! [`Metered`] sits between the loop and the program's own control, so every program has metrics without code
//! for them. An error is logged once and ends the metrics, never the session.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use lh_driver::{ConnectionStats, Control, ControlCx, ControlEvent, Driver, Interests, Link, Ready};
use lh_metrics::{Counters, REQUEST, Recorder, RunHeader, Sample, Side, Source};
use lh_wire::Reader;

use crate::log::{LogTarget, Logger};
use crate::options::Options;
use crate::ui::LogLevel;

/// HPN-SSH's default path of the output files.
const DEFAULT_PATH: &str = "./ssh_stack_metrics";
/// HPN-SSH's message for a server without metrics.
const LOCAL_ONLY: &str = "Remote does not support stack metric polling. Local data only.";
/// Time limit for the peer's last sample.
const FINAL_SAMPLE_TIMEOUT: Duration = Duration::from_millis(500);

/// Shortest interval between samples if `MetricsInterval` is unset: a sample costs about 50 microseconds and
/// 1 KB.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// Divisor: the adaptive interval is the run time so far divided by this, within its limits. So a copy of a
/// second has about 10 samples, and one of an hour not 36,000.
const SHARE_OF_RUN: u32 = 20;

/// Intervals between samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Schedule {
    /// The interval of `MetricsInterval`.
    Fixed(Duration),
    /// Short at first, then longer and longer, up to this interval.
    Adaptive(Duration),
}

impl Schedule {
    /// Returns the time until the next sample, at `elapsed` since the start.
    fn interval(self, elapsed: Duration) -> Duration {
        match self {
            Self::Fixed(interval) => interval,
            Self::Adaptive(longest) => (elapsed / SHARE_OF_RUN).clamp(MIN_INTERVAL.min(longest), longest),
        }
    }
}

/// The output files and the time of the next sample.
pub(crate) struct Metrics {
    started: Instant,
    schedule: Schedule,
    rate_limit: Option<u64>,
    due: Instant,
    local: Option<Recorder>,
    remote: Option<Recorder>,
    /// A request to the peer is unanswered; only one is sent at a time.
    asked: bool,
    /// Metrics have ended: write nothing more.
    over: bool,
    logger: Logger,
}

impl Metrics {
    /// Opens the files, if the configuration asks for them.
    pub(crate) fn start(options: &Options, link: &Link) -> Option<Self> {
        let config = &options.config;
        if !*config.metrics {
            return None;
        }
        let logger = Logger::new(options.log_level, LogTarget::Stderr);
        let now = Instant::now();
        let peer = link.peer_identification().unwrap_or_default();
        let time = SystemTime::now();
        let unix = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let about = RunHeader {
            run: format!("{}-{}", unix.as_millis(), std::process::id()),
            start: lh_sys::time::utc_text(time),
            host: config.host.clone(),
            peer: peer.to_owned(),
            cipher: link.negotiated().map(|names| names.cipher_s2c.clone()).unwrap_or_default(),
        };
        let prefix = Path::new(config.metrics_path.as_deref().unwrap_or(DEFAULT_PATH));
        let open = |side| match Recorder::open(prefix, side, about.clone()) {
            Ok(recorder) => Some(recorder),
            Err(why) => {
                logger.say(LogLevel::Error, &format!("Metrics: {why}"));
                None
            }
        };
        let local = open(Side::Local);
        let remote = if link.peer().limits().answers_stack_metrics {
            open(Side::Remote)
        } else {
            logger.say(LogLevel::Info, LOCAL_ONLY);
            None
        };
        if local.is_none() && remote.is_none() {
            return None;
        }
        let schedule = match config.metrics_interval.0 {
            interval if config.metrics_interval.is_set() => Schedule::Fixed(interval),
            longest => Schedule::Adaptive(longest),
        };
        let rate_limit = options.rate_limit;
        Some(Self {
            started: now,
            schedule,
            rate_limit,
            due: now,
            local,
            remote,
            asked: false,
            over: false,
            logger,
        })
    }

    /// Takes a local sample and requests one from the peer.
    fn sample(&mut self, cx: &mut ControlCx<'_>) {
        let sample = Sample::of(source(cx, self.rate_limit)).0;
        record(&mut self.local, cx.now(), self.started, &sample, &self.logger);
        if self.remote.is_some() && !self.asked {
            self.asked = true;
            cx.global_request(REQUEST, true, b"");
        }
    }

    fn answered(&mut self, ok: bool, fields: &Bytes, now: Instant) {
        self.asked = false;
        let sample = Reader::new(fields).string().ok().map(lh_metrics::read_answer);
        match sample {
            Some(Ok(sample)) if ok => record(&mut self.remote, now, self.started, &sample, &self.logger),
            Some(Err(why)) if ok => {
                self.logger.say(LogLevel::Error, &format!("Metrics: answer of the remote side: {why}"));
                self.remote = None;
            }
            _ => {
                self.logger.say(LogLevel::Info, LOCAL_ONLY);
                self.remote = None;
            }
        }
    }

    /// Writes the last samples of both ends, before the disconnect.
    pub(crate) fn finish(&mut self, driver: &mut Driver) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let end = Instant::now() + FINAL_SAMPLE_TIMEOUT;
        // Wait for the answer to an earlier request first, because it is older than the final sample.
        self.await_answer(driver, end);
        self.sample(&mut driver.control());
        self.await_answer(driver, end);
    }

    /// Runs `driver` until the peer has answered, the connection has failed, or `end` has passed.
    fn await_answer(&mut self, driver: &mut Driver, end: Instant) {
        while self.asked {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || driver.run_once(&mut Listening(self), Some(left)).is_err() {
                return;
            }
        }
    }
}

/// Returns this end's counters, which a sample is made from.
fn source(cx: &ControlCx<'_>, rate_limit: Option<u64>) -> Source {
    // Destructured without `..`, so that a new field cannot be forgotten.
    let ConnectionStats { bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys } =
        cx.stats();
    Source {
        counters: Counters { bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys },
        tcp: cx.tcp_info(),
        congestion_control: cx.congestion_control(),
        rate_limit,
    }
}

/// Writes a sample. A file that cannot be written is abandoned.
fn record(to: &mut Option<Recorder>, now: Instant, started: Instant, sample: &Sample, logger: &Logger) {
    let Some(recorder) = to else { return };
    if let Err(error) = recorder.write(now.saturating_duration_since(started), sample) {
        let path = recorder.path().display();
        logger.say(LogLevel::Error, &format!("Metrics: {path}: {}", lh_sys::errno_text(&error)));
        *to = None;
    }
}

/// A control that waits for one reply.
struct Listening<'a>(&'a mut Metrics);

impl Control for Listening<'_> {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        match event {
            ControlEvent::GlobalReply { name, ok, fields } if name == REQUEST => {
                self.0.answered(ok, &fields, cx.now());
            }
            event => crate::session::answer_by_default(event, cx),
        }
    }
}

/// A control that takes samples besides running `inner`.
pub(crate) struct Metered<'a> {
    pub(crate) inner: &'a mut dyn Control,
    pub(crate) metrics: &'a mut Metrics,
}

impl Control for Metered<'_> {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        match event {
            ControlEvent::GlobalReply { name, ok, fields } if name == REQUEST => {
                self.metrics.answered(ok, &fields, cx.now());
            }
            event => self.inner.on_event(event, cx),
        }
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        self.inner.interests(out);
    }

    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ControlCx<'_>) {
        self.inner.on_ready(token, ready, cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        [self.inner.next_deadline(), Some(self.metrics.due)].into_iter().flatten().min()
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let now = cx.now();
        if self.metrics.due <= now {
            // Counted from now, not from the due time: after a suspend, missed samples are not made up for.
            let elapsed = now.saturating_duration_since(self.metrics.started);
            self.metrics.due = now + self.metrics.schedule.interval(elapsed);
            self.metrics.sample(cx);
        }
        if self.inner.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.inner.on_timeout(cx);
        }
    }

    fn before_wait(&mut self, cx: &mut ControlCx<'_>) {
        self.inner.before_wait(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_interval_grows_with_the_run() {
        let seconds = Duration::from_secs;
        let adaptive = Schedule::Adaptive(seconds(5));
        assert_eq!(adaptive.interval(Duration::ZERO), MIN_INTERVAL);
        assert_eq!(adaptive.interval(seconds(1)), MIN_INTERVAL);
        assert_eq!(adaptive.interval(seconds(40)), seconds(2));
        assert_eq!(adaptive.interval(seconds(3600)), seconds(5));
        assert_eq!(Schedule::Fixed(seconds(1)).interval(seconds(3600)), seconds(1));
    }
}
