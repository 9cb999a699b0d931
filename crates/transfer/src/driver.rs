//! The engine on channels of the readiness loop.
//!
//! A [`Job`] is an engine with a [`JobHandler`] for each remote end. One end needs no more than its driver's
//! thread. Two ends (a copy from one remote host to another) have a driver each, usually on two threads: the engine
//! is behind a lock, and a byte in a socket pair wakes the other side when there is something for it to send.

use std::io::{IoSliceMut, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use lh_driver::{
    ChannelCx, ChannelEvent, ChannelHandler, ChannelId, ChannelOptions, Interest, Interests, Ready,
};
use lh_sftp::server::Output;
use lh_sys::signals::Signals;

use crate::{Current, Direction, Engine, Event, Options, Plan, Side, Summary, Totals, Waits};

/// Who is told how the copy goes. Called on the thread of a driver; must not block for long.
pub trait Report: Send {
    /// Something happened.
    fn event(&mut self, event: Event, now: Instant);

    /// False when nobody looks at progress: then the two below are not called.
    fn wants_progress(&self) -> bool;

    /// The file whose data move, after every turn in which something happened.
    fn progress(&mut self, current: Option<Current<'_>>, now: Instant);

    /// How far the whole copy is; called before [`Report::progress`].
    fn totals(&mut self, _totals: Totals, _now: Instant) {}

    /// The copy has come to its end, or to the end of its connection.
    fn ended(&mut self, _summary: &Summary, _now: Instant) {}

    /// When [`Report::progress`] wants to be called although nothing happens.
    fn next_deadline(&self) -> Option<Instant>;
}

struct State {
    engine: Engine,
    report: Box<dyn Report>,
    /// The channels to the remote end: the first one, and further ones ([`Engine::open_lane`]).
    channels: Vec<ChannelId>,
    /// A signal has come: everything is left as it is, to be gone on with.
    stopped: bool,
}

/// Makes a session channel that runs the SFTP subsystem of one that only knows what to do with its bytes.
pub type AsSession = fn(Box<dyn ChannelHandler>) -> Box<dyn ChannelHandler>;

struct Shared {
    state: Mutex<State>,
    relay: bool,
    signals: Mutex<Option<Arc<Signals>>>,
    /// Writing ends; a byte wakes the handler of that side.
    wake: [UnixStream; 2],
}

/// A copy that runs on drivers. Clones mean the same copy.
#[derive(Clone)]
pub struct Job {
    shared: Arc<Shared>,
    listen: Arc<[UnixStream; 2]>,
}

impl Job {
    /// A job for `plan`; what happens goes to `report`.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(plan: Plan, options: Options, report: Box<dyn Report>) -> std::io::Result<Self> {
        let pair = || {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            theirs.set_nonblocking(true)?;
            std::io::Result::Ok((ours, theirs))
        };
        let (source, target) = (pair()?, pair()?);
        let relay = plan.direction == Direction::Relay;
        let engine = Engine::new(plan, options, Instant::now());
        let state = Mutex::new(State { engine, report, channels: Vec::new(), stopped: false });
        Ok(Self {
            shared: Arc::new(Shared { state, relay, signals: Mutex::default(), wake: [source.1, target.1] }),
            listen: Arc::new([source.0, target.0]),
        })
    }

    /// The handler for the SFTP channel of `side`. It stops its driver, with 0, when the copy is finished.
    pub fn handler(&self, side: Side) -> JobHandler {
        let signals = self.shared.signals.lock().unwrap_or_else(PoisonError::into_inner).clone();
        JobHandler {
            job: self.clone(),
            side,
            lane: Some(0),
            as_session: None,
            deadline: None,
            closed: false,
            signals,
        }
    }

    /// The connection of `side` is gone, or never came to be; see [`Engine::lost`].
    pub fn lost(&self, side: Side, reason: &str) {
        let now = Instant::now();
        let mut state = self.lock();
        state.engine.lost(side, reason, now);
        state.tell(now);
        drop(state);
        self.wake_other(side);
    }

    /// Signals that stop the copy where it is, on this driver's thread; `None` to stop listening to them.
    pub fn stop_on(&self, signals: Option<Arc<Signals>>) {
        *self.shared.signals.lock().unwrap_or_else(PoisonError::into_inner) = signals;
    }

    /// True when a signal has stopped the copy: what is unfinished was left to be gone on with.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// True when nothing is left to do.
    pub fn is_finished(&self) -> bool {
        self.lock().engine.is_finished()
    }

    /// Where the time went, so far.
    pub fn waits(&self) -> Waits {
        self.lock().engine.waits()
    }

    /// How it went, so far.
    pub fn summary(&self) -> Summary {
        self.lock().engine.summary()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_other(&self, side: Side) {
        if self.shared.relay {
            // A full socket holds enough bytes to wake anybody.
            let _ = (&self.shared.wake[1 - side as usize]).write(&[0]);
        }
    }
}

impl State {
    /// Sends on every channel what there is room for.
    fn advance_all(&mut self, side: Side, cx: &mut ChannelCx<'_>, now: Instant) {
        for (lane, &id) in self.channels.iter().enumerate() {
            let mut control = cx.control();
            let Some(mut channel) = control.channel(id) else { continue };
            let mut out = ChannelOutput(&mut channel);
            match lane {
                0 => self.engine.advance(side, &mut out, now),
                lane => self.engine.advance_lane(lane, &mut out, now),
            }
        }
    }

    fn tell(&mut self, now: Instant) {
        while let Some(event) = self.engine.poll_event() {
            self.report.event(event, now);
        }
    }
}

/// One end of a [`Job`].
pub struct JobHandler {
    job: Job,
    side: Side,
    /// Which of the channels to this end; none for a further one that is not open.
    lane: Option<usize>,
    /// How further channels are opened, if they may be.
    as_session: Option<AsSession>,
    deadline: Option<Instant>,
    closed: bool,
    signals: Option<Arc<Signals>>,
}

/// What a handler waits for, beside its channel.
const WAKE: usize = 0;
const SIGNALS: usize = 1;

impl JobHandler {
    /// Lets the copy open further channels on the same connection when they help.
    #[must_use]
    pub const fn with_more_channels(mut self, as_session: AsSession) -> Self {
        self.as_session = Some(as_session);
        self
    }

    fn run(&mut self, cx: &mut ChannelCx<'_>) {
        let now = cx.now();
        let mut guard = self.job.lock();
        let state = &mut *guard;
        if state.channels.len() > 1 {
            // What came on one makes room for data on all.
            state.advance_all(self.side, cx, now);
        } else if self.lane == Some(0) {
            state.engine.advance(self.side, &mut ChannelOutput(cx), now);
        }
        if let Some(as_session) = self.as_session {
            self.open_more(state, as_session, cx);
        }
        state.tell(now);
        let mut redraw = None;
        if state.report.wants_progress() {
            state.report.totals(state.engine.totals(), now);
            state.report.progress(state.engine.current(), now);
            redraw = state.report.next_deadline();
        }
        self.deadline = [state.engine.next_deadline(), redraw].into_iter().flatten().min();
        let finished = state.engine.is_finished() || state.stopped;
        let other = if self.side == Side::Source { Side::Target } else { Side::Source };
        let wake = self.job.shared.relay && (finished || state.engine.wants_to_send(other));
        drop(guard);
        if finished && !std::mem::replace(&mut self.closed, true) {
            self.job.wake_other(self.side);
            self.signals = None;
            let mut state = self.job.lock();
            let summary = state.engine.summary();
            state.report.ended(&summary, now);
            drop(state);
            self.close_all(cx);
            cx.stop(0);
        } else if wake && !self.closed {
            self.job.wake_other(self.side);
        }
    }

    fn opened(&mut self, id: ChannelId) {
        let state = &mut *self.job.lock();
        match self.lane {
            Some(_) => state.engine.open(self.side),
            None => self.lane = Some(state.engine.open_lane()),
        }
        // Of two remote ends neither has further ones.
        if !self.job.shared.relay {
            state.channels.push(id);
        }
    }

    /// Asks for as many channels as the engine would like to have.
    fn open_more(&self, state: &mut State, as_session: AsSession, cx: &mut ChannelCx<'_>) {
        for _ in 0..state.engine.lanes_wanted() {
            let handler = Self {
                job: self.job.clone(),
                side: self.side,
                lane: None,
                as_session: None,
                deadline: None,
                closed: false,
                signals: None,
            };
            let handler = as_session(Box::new(handler));
            if cx.control().open("session", b"", &ChannelOptions::default(), handler).is_err() {
                state.engine.lane_refused();
            }
        }
    }

    fn close_all(&self, cx: &mut ChannelCx<'_>) {
        let channels = std::mem::take(&mut self.job.lock().channels);
        for id in channels {
            if let Some(mut channel) = cx.control().channel(id) {
                channel.close();
            }
        }
        cx.close();
    }

    fn lost(&mut self, reason: &str, cx: &mut ChannelCx<'_>) {
        if self.closed {
            return;
        }
        match self.lane {
            Some(0) => self.job.lost(self.side, reason),
            Some(lane) => self.job.lock().engine.lane_lost(lane, reason, cx.now()),
            None => self.job.lock().engine.lane_refused(),
        }
        self.run(cx);
    }
}

impl ChannelHandler for JobHandler {
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>) {
        match event {
            // Whoever asked for the subsystem did so before; its answer need not be waited for.
            ChannelEvent::Opened { .. } => {
                self.opened(cx.id());
                self.run(cx);
            }
            ChannelEvent::Data { ext: None, data } => {
                let len = data.len();
                let engine = &mut self.job.lock().engine;
                match self.lane {
                    Some(lane @ 1..) => engine.lane_received(lane, data, cx.now()),
                    _ => engine.received(self.side, data, cx.now()),
                }
                cx.consumed(len);
            }
            ChannelEvent::Data { ext: Some(_), data } => {
                let _ = std::io::stderr().write_all(&data);
                cx.consumed(data.len());
            }
            ChannelEvent::Eof | ChannelEvent::Closed => self.lost("Connection closed", cx),
            ChannelEvent::OpenFailed { .. } if self.lane.is_none() => self.lost("", cx),
            ChannelEvent::OpenFailed { description, .. } => {
                let text = crate::display_name(description.as_bytes());
                self.lost(&format!("channel open failed: {text}"), cx);
            }
            ChannelEvent::Request { want_reply: true, .. } => cx.reply(false),
            _ => {}
        }
    }

    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        self.run(cx);
    }

    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        self.run(cx);
    }

    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if self.job.shared.relay {
            out.add(WAKE, self.job.listen[self.side as usize].as_fd(), Interest::READ);
        }
        if let Some(signals) = &self.signals {
            out.add(SIGNALS, signals.as_fd(), Interest::READ);
        }
    }

    fn on_ready(&mut self, token: usize, _ready: Ready, cx: &mut ChannelCx<'_>) {
        if token == SIGNALS {
            if let Some(Ok(Some(_))) = self.signals.as_ref().map(|signals| signals.take()) {
                let mut state = self.job.lock();
                state.stopped = true;
                state.engine.leave();
            }
            return self.run(cx);
        }
        let mut drained = [0; 256];
        while let Ok(1..) = (&self.job.listen[self.side as usize]).read(&mut drained) {}
        self.run(cx);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        self.deadline = None;
        self.run(cx);
    }
}

/// A channel, as the engine sees it.
pub(crate) struct ChannelOutput<'a, 'b>(pub(crate) &'a mut ChannelCx<'b>);

impl Output for ChannelOutput<'_, '_> {
    fn budget(&mut self) -> usize {
        self.0.budget()
    }

    fn send(&mut self, data: &[u8]) -> usize {
        self.0.send(data)
    }

    fn send_in_place(&mut self, want: usize, fill: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> usize) -> usize {
        self.0.send_in_place(want, fill)
    }

    fn peer_is_full(&mut self) -> bool {
        self.0.is_open() && self.0.window() == 0
    }
}
