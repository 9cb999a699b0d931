//! `Metrics`: figures of both ends of the connection, written to files while it lasts.
//!
//! It stands between the loop and the program's own control ([`Metered`]), so that every program has it without knowing. What
//! goes wrong here is said once and costs the figures, never the session.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use lh_driver::{Control, ControlCx, ControlEvent, Driver, Interests, Link, Ready};
use lh_metrics::{About, REQUEST, Recorder, Sample, Side};
use lh_wire::Reader;

use crate::log::{LogTarget, Voice};
use crate::options::Options;
use crate::ui::LogLevel;

/// HPN-SSH's.
const DEFAULT_PATH: &str = "./ssh_stack_metrics";
/// HPN-SSH's words.
const LOCAL_ONLY: &str = "Remote does not support stack metric polling. Local data only.";
/// How long the other end's last figures are waited for.
const LAST_WORD: Duration = Duration::from_millis(500);

/// Shortest time between samples that `MetricsInterval` does not fix: one costs some 50 microseconds and a kilobyte.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
/// Part of the run so far that passes between samples. So a copy of a second has ten, and one of an hour not 36,000.
const SHARE_OF_RUN: u32 = 20;

/// When samples are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Schedule {
    /// As often as `MetricsInterval` says.
    Fixed(Duration),
    /// Often at first, then more and more seldom down to this interval.
    Adaptive(Duration),
}

impl Schedule {
    /// Time until the next sample, `elapsed` after the beginning.
    fn interval(self, elapsed: Duration) -> Duration {
        match self {
            Self::Fixed(interval) => interval,
            Self::Adaptive(longest) => (elapsed / SHARE_OF_RUN).clamp(LEAST_INTERVAL.min(longest), longest),
        }
    }
}

/// What is written, and when next.
pub(crate) struct Metrics {
    started: Instant,
    schedule: Schedule,
    rate_limit: Option<u64>,
    due: Instant,
    local: Option<Recorder>,
    remote: Option<Recorder>,
    /// A question to the other end is not answered yet: one at a time.
    asked: bool,
    /// Nothing more is to be written.
    over: bool,
    voice: Voice,
}

impl Metrics {
    /// Opens the files, where the configuration wants them.
    pub(crate) fn start(options: &Options, link: &Link) -> Option<Self> {
        let config = &options.config;
        if !*config.metrics {
            return None;
        }
        let voice = Voice::new(options.log_level, LogTarget::Stderr);
        let now = Instant::now();
        let transport = link.transport_ref();
        let peer = transport.peer_identification().unwrap_or_default();
        let time = SystemTime::now();
        let unix = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let about = About {
            run: format!("{}-{}", unix.as_millis(), std::process::id()),
            start: lh_sys::time::utc_text(time),
            host: config.host.clone(),
            peer: peer.to_owned(),
            cipher: transport.negotiated().map(|names| names.cipher_s2c.clone()).unwrap_or_default(),
        };
        let prefix = Path::new(config.metrics_path.as_deref().unwrap_or(DEFAULT_PATH));
        let open = |side| match Recorder::open(prefix, side, about.clone()) {
            Ok(recorder) => Some(recorder),
            Err(why) => {
                voice.say(LogLevel::Error, &format!("Metrics: {why}"));
                None
            }
        };
        let local = open(Side::Local);
        let remote = if transport.peer().limits().answers_stack_metrics {
            open(Side::Remote)
        } else {
            voice.say(LogLevel::Info, LOCAL_ONLY);
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
            voice,
        })
    }

    /// Takes a sample here and asks for one there.
    fn sample(&mut self, cx: &mut ControlCx<'_>) {
        let sample = Sample::of(cx, self.rate_limit).0;
        record(&mut self.local, cx.now(), self.started, &sample, &self.voice);
        if self.remote.is_some() && !self.asked {
            self.asked = true;
            cx.global_request(REQUEST, true, b"");
        }
    }

    fn answered(&mut self, ok: bool, fields: &Bytes, now: Instant) {
        self.asked = false;
        let sample = Reader::new(fields).string().ok().map(lh_metrics::read_answer);
        match sample {
            Some(Ok(sample)) if ok => record(&mut self.remote, now, self.started, &sample, &self.voice),
            Some(Err(why)) if ok => {
                self.voice.say(LogLevel::Error, &format!("Metrics: answer of the remote side: {why}"));
                self.remote = None;
            }
            _ => {
                self.voice.say(LogLevel::Info, LOCAL_ONLY);
                self.remote = None;
            }
        }
    }

    /// The last figures of both ends, before the goodbye.
    pub(crate) fn finish(&mut self, driver: &mut Driver) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        self.sample(&mut driver.control());
        let end = Instant::now() + LAST_WORD;
        while self.asked {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || driver.run_once(&mut Listening(self), Some(left)).is_err() {
                return;
            }
        }
    }
}

/// Writes a sample. A file that cannot be written is given up.
fn record(to: &mut Option<Recorder>, now: Instant, started: Instant, sample: &Sample, voice: &Voice) {
    let Some(recorder) = to else { return };
    if let Err(error) = recorder.write(now.saturating_duration_since(started), sample) {
        let path = recorder.path().display();
        voice.say(LogLevel::Error, &format!("Metrics: {path}: {}", crate::dial::errno_text(&error)));
        *to = None;
    }
}

/// Waits for one answer.
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

/// A control that takes samples beside what `inner` does.
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
            // From now on, not from when it was due: a machine that slept does not catch up.
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
    fn short_runs_are_sampled_often_and_long_ones_seldom() {
        let seconds = Duration::from_secs;
        let adaptive = Schedule::Adaptive(seconds(5));
        assert_eq!(adaptive.interval(Duration::ZERO), LEAST_INTERVAL);
        assert_eq!(adaptive.interval(seconds(1)), LEAST_INTERVAL);
        assert_eq!(adaptive.interval(seconds(40)), seconds(2));
        assert_eq!(adaptive.interval(seconds(3600)), seconds(5));
        assert_eq!(Schedule::Fixed(seconds(1)).interval(seconds(3600)), seconds(1));
    }
}
