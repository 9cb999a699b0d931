//! One remote command with its data: what it sends and receives, and samples of the connection meanwhile.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lh_client::{SessionNote, SessionSetup, answer_by_default};
use lh_driver::{
    ChannelCx, ChannelEvent, ChannelHandler, ChannelId, ChannelOptions, ConnectionStats, Control, ControlCx,
    ControlEvent,
};
use lh_metrics::{Counters, Point, REQUEST, Sample, Source};
use lh_wire::Reader;

use crate::target::Remote;

/// A request that no server knows, so that each answers it with a failure. The driver takes the answers to
/// `keepalive@openssh.com` for its own.
const PING: &str = "ping@longhaul";
/// Kept of a command's output, bytes.
const KEPT: usize = 512 * 1024;
/// Time between looks at whether a held command goes on.
const HOLD: Duration = Duration::from_millis(100);
/// Time that a command has to end after its data.
const GRACE: Duration = Duration::from_secs(8);
/// Length of the block that is sent again and again. It is random, so that nothing on the way compresses it.
const BLOCK: usize = 256 * 1024;

/// What happens with the data of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    /// The output is kept; the input is empty.
    Keep,
    /// Random bytes are sent for this time, or up to this number of bytes, from the command's first output on.
    Send(Duration, u64),
    /// The output is counted for this time from its first byte on; a line of input then tells the command to
    /// end.
    Receive(Duration),
    /// The output is kept, and the input stays open until the task's `hold` says no.
    Hold,
}

/// Says whether a held command goes on; asked several times a second, with the command's output so far.
pub(crate) type Hold = Box<dyn FnMut(&[u8]) -> bool>;

/// What to run and to measure.
pub(crate) struct Task {
    pub(crate) setup: SessionSetup,
    pub(crate) data: Data,
    /// Input before the end of input.
    pub(crate) input: Vec<u8>,
    /// Time between samples of the connection.
    pub(crate) sample: Option<Duration>,
    /// Time between round trips of small messages.
    pub(crate) ping: Option<Duration>,
    /// Time limit of a command that keeps its output, and of the start of one that moves data.
    pub(crate) limit: Duration,
    /// For [`Data::Hold`].
    pub(crate) hold: Option<Hold>,
}

/// What a task has shown.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// Samples of this end.
    pub(crate) local: Vec<Point>,
    /// Samples of the other end, where it answers.
    pub(crate) remote: Vec<Point>,
    /// Round trips of small messages: when they were sent, and how long they took, seconds.
    pub(crate) pings: Vec<(f64, f64)>,
    /// Time until the channel was open, the command was accepted, and it had ended, seconds.
    pub(crate) opened: Option<f64>,
    pub(crate) started: Option<f64>,
    pub(crate) ended: Option<f64>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
    /// When pieces of `out` and `err` together arrived, seconds, with the text.
    pub(crate) pieces: Vec<(f64, Vec<u8>)>,
    /// Exit status.
    pub(crate) status: Option<u32>,
    /// Bytes of the command's output.
    pub(crate) received: u64,
    /// Bytes of the command's input.
    pub(crate) sent: u64,
    /// When the data phase began and ended, seconds.
    pub(crate) data: Option<(f64, f64)>,
    /// What went wrong: refused, or the connection is lost.
    pub(crate) failure: Option<String>,
}

impl Shown {
    /// The output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// The standard error as text.
    pub(crate) fn err_text(&self) -> String {
        String::from_utf8_lossy(&self.err).into_owned()
    }
}

/// State that the channel's handler and the control share.
struct Shared {
    shown: Shown,
    begun: Instant,
    sending: bool,
    /// Data are sent when the command is ready.
    sends: bool,
    /// When the command gave its first output, seconds.
    ready: Option<f64>,
    input: Vec<u8>,
    left: u64,
    /// The output is kept.
    keep: bool,
    /// The input ends with `input`.
    ends_input: bool,
    block: Rc<Vec<u8>>,
}

impl Shared {
    fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }
}

thread_local! {
    static RANDOM: Rc<Vec<u8>> = Rc::new(random(BLOCK));
}

/// Bytes that do not compress (xorshift).
pub(crate) fn random(length: usize) -> Vec<u8> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

impl Remote {
    /// Runs a task to its end. After a failure the connection is of no more use.
    pub(crate) fn run(&mut self, task: Task) -> Shown {
        let begun = Instant::now();
        let shared = Rc::new(RefCell::new(Shared {
            shown: Shown::default(),
            begun,
            sending: false,
            sends: matches!(task.data, Data::Send(..)),
            ready: None,
            input: task.input,
            left: match task.data {
                Data::Send(_, most) => most,
                _ => 0,
            },
            keep: !matches!(task.data, Data::Receive(_)),
            ends_input: task.data == Data::Keep,
            block: RANDOM.with(Rc::clone),
        }));
        let handler = Box::new(Bulk { shared: Rc::clone(&shared), at: 0 });
        let asks = self.client.driver().link().transport_ref().peer().limits().answers_stack_metrics;
        let opened = self.client.open_session(task.setup, &ChannelOptions::default(), handler);
        let channel = match opened {
            Ok(channel) => Some(channel),
            Err(error) => return Shown { failure: Some(error.to_string()), ..Shown::default() },
        };
        let mut control = Watch {
            shared: Rc::clone(&shared),
            channel,
            begun,
            data: task.data,
            phase: Phase::Data,
            ends: begun + task.limit,
            sample: task.sample.map(|every| (every, begun)),
            ping: task.ping.map(|every| (every, begun)),
            pings: VecDeque::new(),
            pings_left: None,
            asks: asks && task.sample.is_some(),
            asked: false,
            rate_limit: self.options.rate_limit,
            hold: task.hold.map(|hold| (hold, begun)),
        };
        let result = self.client.run(&mut control);
        drop(control);
        let mut shown = std::mem::take(&mut shared.borrow_mut().shown);
        if let Err(error) = result {
            shown.failure.get_or_insert_with(|| error.to_string());
        }
        shown
    }

    /// Round trips of small messages while nothing else moves, seconds.
    pub(crate) fn ping(&mut self, count: usize, every: Duration) -> Vec<f64> {
        let begun = Instant::now();
        let shared = Rc::new(RefCell::new(Shared {
            shown: Shown::default(),
            begun,
            sending: false,
            sends: false,
            ready: None,
            input: Vec::new(),
            left: 0,
            keep: false,
            ends_input: false,
            block: RANDOM.with(Rc::clone),
        }));
        let mut control = Watch {
            shared: Rc::clone(&shared),
            channel: None,
            begun,
            data: Data::Keep,
            phase: Phase::Data,
            ends: begun + GRACE,
            sample: None,
            ping: Some((every, begun)),
            pings: VecDeque::new(),
            pings_left: Some(count),
            asks: false,
            asked: false,
            rate_limit: None,
            hold: None,
        };
        let _ = self.client.run(&mut control);
        drop(control);
        let shown = std::mem::take(&mut shared.borrow_mut().shown);
        shown.pings.into_iter().map(|(_, took)| took).collect()
    }
}

/// The handler of the command's channel.
struct Bulk {
    shared: Rc<RefCell<Shared>>,
    /// Next byte of the block.
    at: usize,
}

impl Bulk {
    fn produce(&mut self, cx: &mut ChannelCx<'_>) {
        let mut shared = self.shared.borrow_mut();
        if !shared.input.is_empty() {
            let sent = cx.send(&shared.input);
            shared.input.drain(..sent);
        }
        if !shared.sending {
            if shared.ends_input && shared.input.is_empty() {
                cx.eof();
            }
            return;
        }
        let block = Rc::clone(&shared.block);
        loop {
            let want = usize::try_from(shared.left).unwrap_or(usize::MAX).min(cx.budget());
            if want == 0 {
                break;
            }
            let at = &mut self.at;
            let Some(mut reservation) = cx.reserve(None, want) else { break };
            let total = reservation.total();
            for piece in reservation.slices().iter_mut() {
                let mut rest: &mut [u8] = piece;
                while !rest.is_empty() {
                    let from = block.get(*at..).unwrap_or_default();
                    let length = from.len().min(rest.len());
                    if length == 0 {
                        *at = 0;
                        continue;
                    }
                    let (now, later) = rest.split_at_mut(length);
                    now.copy_from_slice(from.get(..length).unwrap_or_default());
                    rest = later;
                    *at += length;
                }
            }
            let sent = reservation.commit(total);
            if sent == 0 {
                break;
            }
            shared.left -= sent as u64;
            shared.shown.sent += sent as u64;
        }
        if shared.left == 0 && shared.shown.data.is_none() {
            shared.sending = false;
            let (from, to) = (shared.ready.unwrap_or(0.0), shared.now());
            shared.shown.data = Some((from, to));
            cx.eof();
        }
    }
}

impl ChannelHandler for Bulk {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            ChannelEvent::Opened { .. } => self.produce(cx),
            ChannelEvent::Data { ext, data } => {
                let mut shared = self.shared.borrow_mut();
                let now = shared.now();
                let keep = shared.keep;
                let shown = &mut shared.shown;
                if ext.is_none() {
                    shown.received += data.len() as u64;
                }
                let kept = if ext.is_some() { &mut shown.err } else { &mut shown.out };
                if (keep || ext.is_some()) && kept.len() < KEPT {
                    kept.extend_from_slice(&data);
                    shown.pieces.push((now, data.to_vec()));
                }
                cx.consumed(data.len());
                let begins = shared.ready.is_none();
                shared.ready.get_or_insert(now);
                if begins && shared.sends {
                    shared.sending = true;
                    drop(shared);
                    self.produce(cx);
                }
            }
            _ => {}
        }
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.produce(cx);
    }
}

/// What the control waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The data.
    Data,
    /// The end of the command, after the data.
    End,
}

/// The control: takes samples, and ends the data in time.
struct Watch {
    shared: Rc<RefCell<Shared>>,
    channel: Option<ChannelId>,
    begun: Instant,
    data: Data,
    phase: Phase,
    /// End of the phase.
    ends: Instant,
    sample: Option<(Duration, Instant)>,
    ping: Option<(Duration, Instant)>,
    /// When unanswered pings were sent.
    pings: VecDeque<Instant>,
    /// Answers to wait for, where pings are all there is.
    pings_left: Option<usize>,
    asks: bool,
    asked: bool,
    rate_limit: Option<u64>,
    /// What holds a command, and when it is asked next.
    hold: Option<(Hold, Instant)>,
}

impl Watch {
    /// When the phase ends.
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
            rate_limit: self.rate_limit,
        };
        let sample = Sample::of(source).0;
        let seconds = self.begun.elapsed().as_secs_f64();
        self.shared.borrow_mut().shown.local.push(Point { seconds, sample });
        if self.asks && !self.asked {
            self.asked = true;
            cx.global_request(REQUEST, true, b"");
        }
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
                    SessionNote::Started => shown.started = Some(now),
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
                if self.sample.is_some() {
                    self.take_sample(cx);
                }
                cx.stop(0);
            }
            ControlEvent::GlobalReply { name, .. } if name == PING => {
                let Some(sent) = self.pings.pop_front() else { return };
                let took = sent.elapsed().as_secs_f64();
                let at = sent.saturating_duration_since(self.begun).as_secs_f64();
                self.shared.borrow_mut().shown.pings.push((at, took));
                if let Some(left) = &mut self.pings_left {
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        cx.stop(0);
                    }
                }
            }
            ControlEvent::GlobalReply { name, ok, fields } if name == REQUEST => {
                self.asked = false;
                let sample = Reader::new(&fields).string().ok().map(lh_metrics::read_answer);
                match sample {
                    Some(Ok(sample)) if ok => {
                        let seconds = self.begun.elapsed().as_secs_f64();
                        self.shared.borrow_mut().shown.remote.push(Point { seconds, sample });
                    }
                    _ => self.asks = false,
                }
            }
            event => answer_by_default(event, cx),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let due = [self.sample, self.ping].map(|each| each.map(|(_, due)| due));
        let held = self.hold.as_ref().map(|(_, due)| *due);
        due.into_iter().flatten().chain(held).chain([self.phase_end()]).min()
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let now = cx.now();
        if let Some((every, due)) = self.sample
            && due <= now
        {
            self.sample = Some((every, now + every));
            self.take_sample(cx);
        }
        if let Some((every, due)) = self.ping
            && due <= now
        {
            self.ping = Some((every, now + every));
            // One at a time where only pings are sent; under load a few, so that a full queue is seen.
            if self.pings.len() < if self.pings_left.is_some() { 1 } else { 4 } {
                self.pings.push_back(Instant::now());
                cx.global_request(PING, true, b"");
            }
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
        if self.phase_end() <= now {
            match (self.phase, self.data) {
                (Phase::Data, Data::Send(..) | Data::Receive(_)) if is_ready => self.end_data(cx),
                _ => {
                    let mut shared = self.shared.borrow_mut();
                    if self.pings_left.is_none() {
                        shared
                            .shown
                            .failure
                            .get_or_insert_with(|| "the command did not end in time".to_owned());
                    }
                    drop(shared);
                    cx.stop(0);
                }
            }
        }
    }
}
