//! The control of a task: takes samples, and ends the data in time.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lh_client::{SessionNote, answer_by_default};
use lh_driver::{ChannelId, ConnectionStats, Control, ControlCx, ControlEvent};
use lh_metrics::{Counters, Point, REQUEST, Sample, Source};
use lh_wire::Reader;

use super::comparison::Comparison;
use super::pings::Pings;
use super::samples::Samples;
use super::shared::{Data, Hold, Shared};

/// A request that no server knows, so that each answers it with a failure. The driver takes the answers to
/// `keepalive@openssh.com` for its own.
const PING: &str = "ping@longhaul";
/// Time between looks at whether a held command goes on.
const HOLD: Duration = Duration::from_millis(100);
/// Why a command has no result that did not end in time.
pub(crate) const LATE: &str = "the command did not end in time";
/// Time that a command has to end after its data.
pub(super) const GRACE: Duration = Duration::from_secs(8);
/// Time that the first of some small messages has to be answered.
pub(super) const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// Event that the control waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The data.
    Data,
    /// The end of the command, after the data.
    End,
}

/// The control: takes samples, and ends the data in time.
pub(super) struct Watch {
    pub(super) shared: Rc<RefCell<Shared>>,
    pub(super) channel: Option<ChannelId>,
    pub(super) begun: Instant,
    pub(super) data: Data,
    pub(super) phase: Phase,
    /// End of the phase.
    pub(super) ends: Instant,
    pub(super) samples: Samples,
    pub(super) pings: Pings,
    /// Reason for holding a command, and the time of the next query.
    pub(super) hold: Option<(Hold, Instant)>,
    /// Comparison that ends the data early, and the number of this connection in it.
    pub(super) comparison: Option<(Arc<Comparison>, usize)>,
    /// The channel is not asked to end after its data: the connection ends.
    pub(super) ends_with_data: bool,
}

impl Watch {
    /// Returns when the phase ends.
    fn phase_end(&self) -> Instant {
        match (self.phase, self.data, self.shared.borrow().ready) {
            (Phase::Data, Data::Send(time, _) | Data::Receive(time), Some(ready)) => {
                self.begun + Duration::from_secs_f64(ready) + time
            }
            (Phase::Data, Data::Hold, Some(_)) => self.begun + Duration::from_secs(24 * 3600),
            _ => self.ends,
        }
    }

    fn take_sample(&mut self, cx: &mut ControlCx<'_>) {
        let ConnectionStats { bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys } =
            cx.stats();
        let counters =
            Counters { bytes_in, bytes_out, channels, receive_window, send_credit, queued, rekeys };
        let source = Source {
            counters,
            tcp: cx.tcp_info(),
            congestion_control: cx.congestion_control(),
            rate_limit: self.samples.rate_limit,
        };
        let sample = Sample::of(source).0;
        let seconds = self.begun.elapsed().as_secs_f64();
        self.compare(&sample, seconds);
        self.shared.borrow_mut().shown.local.push(Point { seconds, sample });
        if self.samples.ask() {
            cx.global_request(REQUEST, true, b"");
        }
    }

    /// Notes since when the rate stands still, where that is known.
    fn compare(&self, sample: &Sample, seconds: f64) {
        let Some((comparison, index)) = &self.comparison else { return };
        let mut shared = self.shared.borrow_mut();
        if self.phase != Phase::Data || shared.ready.is_none() {
            return;
        }
        let bytes = match self.data {
            Data::Send(..) => sample.tcp("bytes_acked").or_else(|| sample.ssh("bytes_out")),
            _ => sample.ssh("bytes_in"),
        };
        let steady_for = bytes.and_then(|bytes| comparison.moved(*index, seconds, bytes));
        shared.shown.steady = steady_for.map(|steady_for| (seconds - steady_for).max(0.0));
    }

    /// Ends the data: the command gets the end of its input, or a line that tells it to stop.
    fn end_data(&mut self, cx: &mut ControlCx<'_>) {
        let now = cx.now();
        {
            let mut shared = self.shared.borrow_mut();
            shared.sending = false;
            let (from, to) = (shared.ready.unwrap_or(0.0), shared.now());
            shared.shown.data.get_or_insert((from, to));
        }
        self.phase = Phase::End;
        self.ends = now + GRACE;
        if let Some((comparison, _)) = &self.comparison {
            comparison.ended();
        }
        if let Some(mut channel) = self.channel.and_then(|id| cx.channel(id)) {
            if matches!(self.data, Data::Receive(_)) {
                channel.send(b"stop\n");
            }
            channel.eof();
        }
    }
}

impl Control for Watch {
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>) {
        match event {
            ControlEvent::Note { note, .. } => {
                let Some(note) = note.downcast_ref::<SessionNote>() else { return };
                let mut shared = self.shared.borrow_mut();
                let now = shared.now();
                let shown = &mut shared.shown;
                match note {
                    SessionNote::Opened => shown.opened = Some(now),
                    SessionNote::PtyRefused => shown.lacks_terminal = true,
                    SessionNote::ExitStatus(status) => shown.status = Some(*status),
                    SessionNote::OpenFailed { description, .. } => {
                        shown.failure = Some(lh_client::sanitise(description));
                        cx.stop(0);
                    }
                    SessionNote::StartRefused { request } => {
                        shown.failure = Some(format!("{request} request failed on channel 0"));
                        cx.stop(0);
                    }
                    _ => {}
                }
            }
            ControlEvent::ChannelGone { id, .. } if Some(id) == self.channel => {
                let mut shared = self.shared.borrow_mut();
                let now = shared.now();
                shared.shown.ended = Some(now);
                let from = shared.ready.unwrap_or(0.0);
                shared.shown.data.get_or_insert((from, now));
                drop(shared);
                if self.samples.are_taken() {
                    self.take_sample(cx);
                }
                cx.stop(0);
            }
            ControlEvent::GlobalReply { name, .. } if name == PING => {
                let Some(sent) = self.pings.on_answer() else { return };
                let took = sent.elapsed().as_secs_f64();
                let at = sent.saturating_duration_since(self.begun).as_secs_f64();
                self.shared.borrow_mut().shown.pings.push((at, took));
                if self.pings.are_alone() {
                    self.ends = self.begun + GRACE;
                }
                if self.pings.are_complete() {
                    cx.stop(0);
                }
            }
            ControlEvent::GlobalReply { name, ok, fields } if name == REQUEST => {
                let answer = Reader::new(&fields).string().ok().map(lh_metrics::read_answer);
                let sample = answer.and_then(Result::ok).filter(|_| ok);
                self.samples.on_answer(sample.is_some());
                if let Some(sample) = sample {
                    let seconds = self.begun.elapsed().as_secs_f64();
                    self.shared.borrow_mut().shown.remote.push(Point { seconds, sample });
                }
            }
            event => answer_by_default(event, cx),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let due = [self.samples.due(), self.pings.due()];
        let held = self.hold.as_ref().map(|(_, due)| *due);
        due.into_iter().flatten().chain(held).chain([self.phase_end()]).min()
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let now = cx.now();
        if self.samples.take(now) {
            self.take_sample(cx);
        }
        if self.pings.send(now) {
            cx.global_request(PING, true, b"");
        }
        let is_ready = self.shared.borrow().ready.is_some();
        if let Some((hold, due)) = &mut self.hold
            && *due <= now
        {
            *due = now + HOLD;
            let goes_on = hold(&self.shared.borrow().shown.out);
            if !goes_on {
                self.hold = None;
                self.end_data(cx);
            }
        }
        let is_known = self.phase == Phase::Data && self.shared.borrow().shown.steady.is_some();
        if is_known || self.phase_end() <= now {
            match (self.phase, self.data) {
                (Phase::Data, Data::Send(..) | Data::Receive(_)) if is_ready => {
                    self.end_data(cx);
                    if self.ends_with_data {
                        cx.stop(0);
                    }
                }
                _ => {
                    let mut shared = self.shared.borrow_mut();
                    if !self.pings.are_alone() {
                        shared.shown.failure.get_or_insert_with(|| LATE.to_owned());
                    }
                    drop(shared);
                    cx.stop(0);
                }
            }
        }
    }
}
