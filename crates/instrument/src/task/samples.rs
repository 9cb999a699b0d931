//! When the samples of a task are taken, and which of them the server is asked for.

use std::time::{Duration, Instant};

use super::timer::Timer;

/// The samples of a task.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Time of the next sample; `None` where none are taken.
    timer: Option<Timer>,
    /// The server answers requests for its samples.
    answers: bool,
    /// A request has no answer yet.
    is_asked: bool,
    /// Rate limit of this end, bytes/s, which its samples contain.
    pub(super) rate_limit: Option<u64>,
}

impl Samples {
    /// Samples from `now` on; none where `every` is `None`. `answers` says whether the server gives its own.
    pub(super) fn new(every: Option<Duration>, now: Instant, answers: bool, rate_limit: Option<u64>) -> Self {
        let timer = every.map(|every| Timer::new(every, now));
        Self { timer, answers: answers && every.is_some(), is_asked: false, rate_limit }
    }

    /// Returns whether samples are taken.
    pub(super) const fn are_taken(&self) -> bool {
        self.timer.is_some()
    }

    /// Returns the time of the next sample.
    pub(super) fn due(&self) -> Option<Instant> {
        self.timer.map(|timer| timer.due)
    }

    /// Returns whether a sample is due, and sets the time of the next one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.timer.as_mut().is_some_and(|timer| timer.fires(now))
    }

    /// Returns whether to ask the server for its sample, which is then noted as asked: one request at a time.
    pub(super) const fn ask(&mut self) -> bool {
        let asks = self.answers && !self.is_asked;
        self.is_asked |= asks;
        asks
    }

    /// Notes the server's answer. After one that is no sample, it is not asked again.
    pub(super) const fn on_answer(&mut self, is_sample: bool) {
        self.is_asked = false;
        self.answers &= is_sample;
    }
}
