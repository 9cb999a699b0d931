//! The handler that most channels need: local descriptors on one side, the channel on the other.

mod input;

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;

pub use input::InputFilter;
use input::{Filtered, Input};

use crate::event::ChannelEvent;
use crate::handler::{ChannelCx, ChannelHandler};
use crate::idle_timer::IdleTimer;
use crate::local_fd::LocalFd;
use crate::poller::{Interest, Interests, Ready};
use crate::sink::Sink;

/// Request that reports to the other side that its output no longer has a reader.
const EOW_REQUEST: &str = "eow@openssh.com";

/// Poll token of the main output; 0 and 1 are inputs.
const OUTPUT: usize = 2;
const OUTPUT_EXT: usize = 3;

/// Copies between local descriptors and a channel, and passes ends and half-closes on in both directions.
///
/// * Inputs are read straight into the send buffer, as far as there is budget. When all inputs have ended,
///   EOF is sent.
/// * Outputs write received data; credit is returned only for bytes that they have written. When the peer has
///   sent EOF and everything is written, they are closed (a socket is shut down for writing).
/// * After an output fails, received data is dropped, with credit, so that the peer does not hang.
/// * Data without an output is dropped, with credit.
///
/// A program that needs more (exit status, pty requests) wraps the pump in its own handler and passes on the
/// other events.
pub struct FdPump {
    inputs: Vec<Input>,
    /// Bytes read from inputs that have been dropped.
    read_before: u64,
    output: Option<Sink>,
    output_ext: Option<Sink>,
    /// The outputs are to be closed when their queues are written.
    output_ending: bool,
    filtered: Option<Filtered>,
    started: bool,
    start_by_hand: bool,
    close_when_done: bool,
    eow: bool,
    /// The budget was 0 when last asked: [`ChannelHandler::on_writable`] will be called.
    waits_for_budget: bool,
    eof_by_hand: bool,
    eof_sent: bool,
    /// Idle time after which the channel is closed.
    idle: IdleTimer,
    /// Callback for the peer's answer to the channel open.
    outcome: Option<Outcome>,
}

/// Callback of [`FdPump::on_outcome`].
type Outcome = Box<dyn FnOnce(Result<(), (u32, &str)>, &mut ChannelCx<'_>)>;

impl Default for FdPump {
    fn default() -> Self {
        Self::new()
    }
}

impl FdPump {
    /// A pump without descriptors: sends no data and drops what it receives.
    pub const fn new() -> Self {
        Self {
            inputs: Vec::new(),
            read_before: 0,
            output: None,
            output_ext: None,
            output_ending: false,
            filtered: None,
            started: false,
            start_by_hand: false,
            close_when_done: false,
            eow: false,
            waits_for_budget: false,
            eof_by_hand: false,
            eof_sent: false,
            idle: IdleTimer::new(None),
            outcome: None,
        }
    }

    /// A pump for both directions of a socket, closed when both have ended: a forwarded connection.
    #[must_use]
    pub fn socket(fd: LocalFd) -> Self {
        Self::new().input(fd.clone()).output(fd).close_when_done()
    }

    /// Sends the bytes read from `fd`.
    #[must_use]
    pub fn input(mut self, fd: LocalFd) -> Self {
        self.inputs.push(Input::new(fd, None));
        self
    }

    /// Sends the bytes read from `fd` as extended data; `kind` 1 is stderr. At most one, besides one
    /// [`input`](Self::input).
    #[must_use]
    pub fn input_ext(mut self, kind: u32, fd: LocalFd) -> Self {
        self.inputs.push(Input::new(fd, Some(kind)));
        self
    }

    /// Writes the peer's main stream to `fd`.
    #[must_use]
    pub fn output(mut self, fd: LocalFd) -> Self {
        self.output = Some(Sink::new(fd));
        self
    }

    /// Writes the peer's standard error to `fd`.
    #[must_use]
    pub fn output_ext(mut self, fd: LocalFd) -> Self {
        self.output_ext = Some(Sink::new(fd));
        self
    }

    /// Passes bytes from [`input`](Self::input) through a filter before sending.
    #[must_use]
    pub fn filter(mut self, filter: Box<dyn InputFilter>) -> Self {
        self.filtered = Some(Filtered::new(filter));
        self
    }

    /// Delays reading inputs from the channel's opening until [`start`](Self::start).
    #[must_use]
    pub const fn start_by_hand(mut self) -> Self {
        self.start_by_hand = true;
        self
    }

    /// Closes the channel when all inputs have ended and all outputs are closed. Otherwise the peer or the
    /// wrapping handler closes it.
    #[must_use]
    pub const fn close_when_done(mut self) -> Self {
        self.close_when_done = true;
        self
    }

    /// Leaves sending EOF to the wrapping handler ([`send_eof`](Self::send_eof)), which may have messages to
    /// send first: some clients close at EOF and miss an exit status behind it.
    #[must_use]
    pub const fn eof_by_hand(mut self) -> Self {
        self.eof_by_hand = true;
        self
    }

    /// Sends `eow@openssh.com` when the output breaks (its reader has gone). Sessions do so, so that `yes |
    /// head` ends on the remote side too.
    #[must_use]
    pub const fn tell_broken_output(mut self) -> Self {
        self.eow = true;
        self
    }

    /// Closes the channel when it has carried no data for `limit` (`ChannelTimeout`); data still held is
    /// dropped.
    #[must_use]
    pub const fn idle_limit(mut self, limit: Option<Duration>) -> Self {
        self.idle = IdleTimer::new(limit);
        self
    }

    /// Calls `outcome` when the channel opens, before any input is read, or when the peer refuses it. A
    /// refusal has a reason (one of [`lh_wire::msg::open_failure`]) and an untrusted text.
    #[must_use]
    pub fn on_outcome(
        mut self,
        outcome: impl FnOnce(Result<(), (u32, &str)>, &mut ChannelCx<'_>) + 'static,
    ) -> Self {
        self.outcome = Some(Box::new(outcome));
        self
    }

    /// Starts reading the inputs of a pump built with [`start_by_hand`](Self::start_by_hand).
    pub fn start(&mut self, cx: &mut ChannelCx<'_>) {
        self.started = true;
        self.idle.start(cx.now());
        self.read_inputs(cx);
    }

    /// Stops reading. Data that was read is still sent, including filtered data that waits for the peer's
    /// window; EOF follows it.
    pub fn end_input(&mut self, cx: &mut ChannelCx<'_>) {
        for input in &mut self.inputs {
            input.fd = None;
        }
        self.after_input(cx);
    }

    /// Drops the inputs and sends EOF: the peer does not want their data.
    pub fn stop_input(&mut self, cx: &mut ChannelCx<'_>) {
        self.drop_inputs(true, cx);
    }

    /// Drops inputs, so that their writers get an error (`yes | head`). EOF is sent when none is left.
    fn drop_inputs(&mut self, extended_too: bool, cx: &mut ChannelCx<'_>) {
        let had_some = !self.inputs.is_empty();
        for input in self.inputs.extract_if(.., |input| extended_too || input.ext.is_none()) {
            self.read_before += input.read;
        }
        if let Some(filtered) = &mut self.filtered {
            filtered.waiting.clear();
        }
        if had_some && self.inputs.is_empty() && !self.eof_by_hand {
            self.send_eof(cx);
        }
        self.after_input(cx);
    }

    /// Closes the outputs as soon as their queues are written, as if the peer had sent EOF.
    pub fn end_output(&mut self, cx: &mut ChannelCx<'_>) {
        self.output_ending = true;
        if let Some(sink) = &mut self.output_ext {
            sink.end();
        }
        self.end_main_output();
        self.close_if_done(cx);
    }

    /// Ends the main output after the extended one. Programs such as rsync kill `ssh` at the end of its
    /// standard output, and the rest of the remote standard error would be lost.
    fn end_main_output(&mut self) {
        if self.output_ending
            && self.output_ext.as_ref().is_none_or(|sink| sink.queued() == 0)
            && let Some(sink) = &mut self.output
        {
            sink.end();
        }
    }

    /// Sends EOF once.
    pub fn send_eof(&mut self, cx: &mut ChannelCx<'_>) {
        if !self.eof_sent {
            self.eof_sent = true;
            cx.eof();
        }
    }

    /// True when all inputs have ended and all their bytes are sent.
    pub fn input_ended(&self) -> bool {
        self.inputs.iter().all(|input| input.fd.is_none())
            && self.filtered.as_ref().is_none_or(|filtered| filtered.waiting.is_empty())
    }

    /// True when no output will be written to any more.
    pub fn output_ended(&self) -> bool {
        self.output.iter().chain(&self.output_ext).all(Sink::is_closed)
    }

    /// Bytes queued for outputs.
    pub fn output_queued(&self) -> usize {
        self.output.iter().chain(&self.output_ext).map(Sink::queued).sum()
    }

    /// Bytes read from all inputs.
    pub fn bytes_read(&self) -> u64 {
        self.read_before + self.inputs.iter().map(|input| input.read).sum::<u64>()
    }

    /// Bytes written to all outputs.
    pub fn bytes_written(&self) -> u64 {
        self.output.iter().chain(&self.output_ext).map(Sink::written).sum()
    }

    /// Error of the main output, once it has failed.
    pub fn output_error(&self) -> Option<&io::Error> {
        self.output.as_ref().and_then(Sink::error)
    }

    fn read_inputs(&mut self, cx: &mut ChannelCx<'_>) {
        for index in 0..self.inputs.len() {
            self.read_input(index, cx);
        }
        self.after_input(cx);
    }

    fn read_input(&mut self, index: usize, cx: &mut ChannelCx<'_>) {
        if !self.started {
            return;
        }
        let Some(input) = self.inputs.get_mut(index).filter(|input| input.fd.is_some()) else { return };
        self.idle.touch(cx.now());
        if input.ext.is_none()
            && let Some(filtered) = &mut self.filtered
        {
            return filtered.read(input, cx);
        }
        if !input.send_available(cx) {
            self.waits_for_budget = true;
        }
    }

    /// Sends filtered bytes, and EOF when the inputs have ended.
    fn after_input(&mut self, cx: &mut ChannelCx<'_>) {
        if let Some(filtered) = &mut self.filtered {
            filtered.send(cx);
        }
        if !self.inputs.is_empty() && self.input_ended() && !self.eof_by_hand {
            self.send_eof(cx);
        }
        self.close_if_done(cx);
    }

    fn flush_outputs(&mut self, cx: &mut ChannelCx<'_>) {
        let mut broken = false;
        for sink in self.output.iter_mut().chain(&mut self.output_ext) {
            if sink.waits_for().is_none() {
                let was_open = !sink.is_closed();
                cx.consumed(sink.flush());
                broken |= was_open && sink.error().is_some();
            }
        }
        self.after_output(broken, cx);
    }

    fn after_output(&mut self, broken: bool, cx: &mut ChannelCx<'_>) {
        if broken && self.eow {
            cx.request(EOW_REQUEST, false, b"");
        }
        self.end_main_output();
        self.close_if_done(cx);
    }

    fn close_if_done(&mut self, cx: &mut ChannelCx<'_>) {
        if self.close_when_done && self.eof_sent && self.output_ended() {
            cx.close();
        }
    }

    fn deliver(&mut self, ext: Option<u32>, data: Bytes, cx: &mut ChannelCx<'_>) {
        let sink = if ext.is_none() { &mut self.output } else { &mut self.output_ext };
        let length = data.len();
        self.idle.touch(cx.now());
        if !sink.as_mut().is_some_and(|sink| sink.push(data)) {
            cx.consumed(length);
        }
    }
}

impl ChannelHandler for FdPump {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            ChannelEvent::Opened { .. } => {
                if let Some(outcome) = self.outcome.take() {
                    outcome(Ok(()), cx);
                }
                if !self.start_by_hand {
                    self.start(cx);
                }
            }
            ChannelEvent::Data { ext, data } => self.deliver(ext, data, cx),
            ChannelEvent::Eof => self.end_output(cx),
            ChannelEvent::Request { name, want_reply, .. } => {
                if name == EOW_REQUEST {
                    // The request is about the main stream; stderr is still wanted.
                    self.drop_inputs(false, cx);
                }
                if want_reply {
                    cx.reply(name == EOW_REQUEST);
                }
            }
            ChannelEvent::Closed => {
                self.stop_input(cx);
                self.end_output(cx);
            }
            ChannelEvent::OpenFailed { reason, description } => {
                if let Some(outcome) = self.outcome.take() {
                    outcome(Err((reason, &description)), cx);
                }
                self.stop_input(cx);
                for sink in self.output.iter_mut().chain(&mut self.output_ext) {
                    sink.release();
                }
                self.end_output(cx);
            }
            ChannelEvent::RequestReply { .. } => {}
        }
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.flush_outputs(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.waits_for_budget = false;
        // The descriptors were readable when the budget ran out: reading at once saves a poll.
        self.read_inputs(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        use std::os::fd::AsFd;
        for (token, input) in self.inputs.iter().enumerate() {
            let room = match &self.filtered {
                Some(filtered) if input.ext.is_none() => filtered.has_room(),
                _ => !self.waits_for_budget,
            };
            if let Some(fd) = input.fd.as_ref().filter(|_| self.started && room) {
                out.add(token, fd.as_fd(), Interest::READ);
            }
        }
        for (token, sink) in [(OUTPUT, &self.output), (OUTPUT_EXT, &self.output_ext)] {
            if let Some(fd) = sink.as_ref().and_then(Sink::waits_for) {
                out.add(token, fd.as_fd(), Interest::WRITE);
            }
        }
    }

    fn on_ready(&mut self, token: usize, _ready: Ready, cx: &mut ChannelCx<'_>) {
        let sink = match token {
            OUTPUT => &mut self.output,
            OUTPUT_EXT => &mut self.output_ext,
            input => {
                self.read_input(input, cx);
                return self.after_input(cx);
            }
        };
        let Some(sink) = sink.as_mut().filter(|sink| !sink.is_closed()) else { return };
        let flushed = sink.flush();
        if flushed > 0 {
            self.idle.touch(cx.now());
        }
        cx.consumed(flushed);
        let broken = sink.error().is_some();
        self.after_output(broken, cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.idle.deadline()
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.idle.stop();
        self.stop_input(cx);
        for sink in self.output.iter_mut().chain(&mut self.output_ext) {
            cx.consumed(sink.close());
        }
        cx.close();
    }

    fn finished(&self) -> bool {
        self.output_ended()
    }
}
