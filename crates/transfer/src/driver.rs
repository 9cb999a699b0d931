//! The engine on channels of the readiness loop.
//!
//! A [`Job`] is an engine with a [`JobHandler`] for each remote end. One end needs no more than its driver's
//! thread. Two ends (a copy from one remote host to another) have a driver each, usually on two threads: the engine
//! is behind a lock, and a byte in a socket pair wakes the other side when there is something for it to send.
//! So is it with further connections to the same end ([`crate::Further`]): each has a driver on a thread of its own, for its channels
//! and its ciphers, and rings for the others when there is something for them.

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

use crate::engine::{LOOK, Turn};
use crate::further::{Bell, Further};
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
    channels: Vec<Open>,
    /// Channels to be opened after all, where a connection was to be had instead.
    instead: usize,
    /// When the load of the first connection is looked at next.
    next_look: Option<Instant>,
    /// What the others were last woken for: how things stood, and the requests that waited on each channel.
    turn: Option<Turn>,
    queued: Vec<usize>,
    /// A signal has come: everything is left as it is, to be gone on with.
    stopped: bool,
}

/// A channel of one of the connections.
#[derive(Clone, Copy)]
struct Open {
    connection: usize,
    lane: usize,
    id: ChannelId,
}

/// Makes a session channel that runs the SFTP subsystem of one that only knows what to do with its bytes.
pub type AsSession = fn(Box<dyn ChannelHandler>) -> Box<dyn ChannelHandler>;

struct Shared {
    state: Mutex<State>,
    relay: bool,
    signals: Mutex<Option<Arc<Signals>>>,
    /// Writing ends; a byte wakes the handler of that side.
    wake: [UnixStream; 2],
    /// Of each connection to the same end, the first one's first.
    bells: Mutex<Vec<Arc<Bell>>>,
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
        let state = State {
            engine,
            report,
            channels: Vec::new(),
            instead: 0,
            next_look: None,
            turn: None,
            queued: Vec::new(),
            stopped: false,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                relay,
                signals: Mutex::default(),
                wake: [source.1, target.1],
                bells: Mutex::new(vec![Arc::new(Bell::new()?)]),
            }),
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
            connection: 0,
            bell: self.bell(0),
            as_session: None,
            further: None,
            deadline: None,
            closed: false,
            signals,
        }
    }

    /// A further connection to the end that has one stands; returns its number, from 1.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn further_connection(&self) -> std::io::Result<usize> {
        let bell = Arc::new(Bell::new()?);
        let mut bells = self.shared.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.push(bell);
        let number = bells.len() - 1;
        drop(bells);
        self.lock().engine.connection_came();
        Ok(number)
    }

    /// Nothing came of [`Further::another`].
    pub fn another_failed(&self) {
        self.lock().engine.connection_refused();
    }

    /// The handler for an SFTP channel of a further connection, of which the `first` one hears what happens on the others. It stops
    /// its driver, with 0, when the copy is finished.
    pub fn further_handler(&self, side: Side, connection: usize, first: bool) -> JobHandler {
        JobHandler {
            job: self.clone(),
            side,
            lane: None,
            connection,
            bell: if first { self.bell(connection) } else { None },
            as_session: None,
            further: None,
            deadline: None,
            closed: false,
            signals: None,
        }
    }

    /// No connection came of it. `beyond`: it was to be had because the server allows no more channels.
    pub fn connection_failed(&self, beyond: bool) {
        let mut state = self.lock();
        if beyond {
            state.engine.lane_refused();
        } else {
            state.instead += 1;
        }
        drop(state);
        self.ring(|_| true);
    }

    /// A further connection is gone.
    pub fn connection_lost(&self, connection: usize, reason: &str) {
        let now = Instant::now();
        let mut state = self.lock();
        state.lose(connection, reason, now);
        state.tell(now);
        drop(state);
        self.ring(|_| true);
    }

    /// Tells whoever follows the copy what was decided about its connections.
    pub fn remark(&self, text: String) {
        self.lock().report.event(Event::Told { text }, Instant::now());
    }

    fn bell(&self, connection: usize) -> Option<Arc<Bell>> {
        let bells = self.shared.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.get(connection).cloned().filter(|_| !self.shared.relay)
    }

    /// Wakes the connections that are `wanted`.
    fn ring(&self, wanted: impl Fn(usize) -> bool) {
        let bells = self.shared.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells
            .iter()
            .enumerate()
            .filter(|(connection, _)| wanted(*connection))
            .for_each(|(_, bell)| bell.ring());
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
    fn advance_all(&mut self, side: Side, connection: usize, cx: &mut ChannelCx<'_>, now: Instant) {
        for open in self.channels.iter().filter(|open| open.connection == connection) {
            let (lane, id) = (open.lane, open.id);
            let mut control = cx.control();
            let Some(mut channel) = control.channel(id) else { continue };
            let mut out = ChannelOutput(&mut channel);
            match lane {
                0 => self.engine.advance(side, &mut out, now),
                lane => self.engine.advance_lane(lane, &mut out, now),
            }
        }
    }

    /// The channels of a connection are gone.
    fn lose(&mut self, connection: usize, reason: &str, now: Instant) {
        for open in self.channels.extract_if(.., |open| open.connection == connection) {
            self.engine.lane_lost(open.lane, reason, now);
        }
    }

    /// Which connections but this one have something to do that they had not.
    fn others(&mut self, connection: usize) -> Vec<usize> {
        let turn = self.engine.turn();
        let changed = self.turn.replace(turn) != Some(turn);
        let mut others = Vec::new();
        for open in &self.channels {
            let queued = self.engine.lane_queue(open.lane);
            if self.queued.len() <= open.lane {
                self.queued.resize(open.lane + 1, 0);
            }
            let before = self.queued.get_mut(open.lane).map_or(0, |seen| std::mem::replace(seen, queued));
            if open.connection != connection && (changed || queued > before) {
                others.push(open.connection);
            }
        }
        others
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
    /// Which of the connections to this end.
    connection: usize,
    /// Rung by the others; in one handler of each connection.
    bell: Option<Arc<Bell>>,
    /// How further channels are opened, if they may be.
    as_session: Option<AsSession>,
    /// Who makes further connections, if they may be.
    further: Option<Arc<dyn Further>>,
    deadline: Option<Instant>,
    closed: bool,
    signals: Option<Arc<Signals>>,
}

/// What a handler waits for, beside its channel.
const WAKE: usize = 0;
const SIGNALS: usize = 1;
const BELL: usize = 2;

impl JobHandler {
    /// Lets the copy open further channels on the same connection when they help.
    #[must_use]
    pub const fn with_more_channels(mut self, as_session: AsSession) -> Self {
        self.as_session = Some(as_session);
        self
    }

    /// Lets the copy have further connections when they help.
    #[must_use]
    pub fn with_further(mut self, further: Option<Arc<dyn Further>>) -> Self {
        self.further = further;
        self
    }

    fn run(&mut self, cx: &mut ChannelCx<'_>) {
        let now = cx.now();
        let mut guard = self.job.lock();
        let state = &mut *guard;
        if state.channels.len() > 1 || self.connection > 0 {
            // What came on one makes room for data on all.
            state.advance_all(self.side, self.connection, cx, now);
        } else if self.lane == Some(0) {
            state.engine.advance(self.side, &mut ChannelOutput(cx), now);
        }
        if let Some(as_session) = self.as_session {
            self.open_more(state, as_session, cx);
        }
        self.look_at_load(state, cx);
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
        let others = state.others(self.connection);
        drop(guard);
        if finished && !self.closed {
            self.job.ring(|connection| connection != self.connection);
        } else if !others.is_empty() {
            self.job.ring(|connection| others.contains(&connection));
        }
        if finished && !std::mem::replace(&mut self.closed, true) {
            self.job.wake_other(self.side);
            self.signals = None;
            let mut state = self.job.lock();
            let summary = state.engine.summary();
            if self.connection == 0 {
                state.report.ended(&summary, now);
            }
            drop(state);
            self.close_all(cx);
            cx.stop(0);
        } else if wake && !self.closed {
            self.job.wake_other(self.side);
        }
    }

    fn opened(&mut self, id: ChannelId) {
        let state = &mut *self.job.lock();
        let lane = match self.lane {
            Some(lane) => {
                state.engine.open(self.side);
                lane
            }
            None => *self.lane.insert(state.engine.open_lane()),
        };
        // Of two remote ends neither has further ones.
        if !self.job.shared.relay {
            state.channels.push(Open { connection: self.connection, lane, id });
        }
    }

    /// Asks for as many channels as the engine would like to have, or for connections instead.
    fn open_more(&self, state: &mut State, as_session: AsSession, cx: &mut ChannelCx<'_>) {
        let mut channels = std::mem::take(&mut state.instead);
        // Who has not said how many has channels first, and connections where they are found to help.
        let instead = self.further.as_ref().filter(|_| !state.engine.chooses_channels());
        for _ in 0..state.engine.lanes_wanted() {
            let connects = instead.is_some_and(|further| further.instead(&mut cx.control()));
            channels += usize::from(!connects);
        }
        for _ in 0..channels {
            let handler = Self {
                job: self.job.clone(),
                side: self.side,
                lane: None,
                connection: self.connection,
                bell: None,
                as_session: None,
                further: self.further.clone(),
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

    /// From time to time: would another connection help?
    fn look_at_load(&self, state: &mut State, cx: &mut ChannelCx<'_>) {
        let Some(further) = self.further.as_ref().filter(|_| self.lane == Some(0)) else { return };
        let now = cx.now();
        if state.next_look.is_some_and(|next| now < next) {
            return;
        }
        state.next_look = Some(now + LOOK);
        if state.engine.look_at_load(further.load(), now) {
            // As many channels as this one has: where windows are small one would not show what it is worth.
            let channels = state.channels.iter().filter(|open| open.connection == self.connection).count();
            if !further.another(channels, &mut cx.control()) {
                state.engine.connection_refused();
            }
        }
    }

    fn close_all(&self, cx: &mut ChannelCx<'_>) {
        let mine = |open: &mut Open| open.connection == self.connection;
        let channels: Vec<Open> = self.job.lock().channels.extract_if(.., mine).collect();
        for open in channels {
            if let Some(mut channel) = cx.control().channel(open.id) {
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
            Some(_) if self.connection > 0 => {
                // It has no other purpose.
                self.job.lock().lose(self.connection, reason, cx.now());
                cx.stop(0);
            }
            Some(lane) => self.job.lock().engine.lane_lost(lane, reason, cx.now()),
            None if self.further.as_ref().is_some_and(|further| further.beyond()) => {}
            None => {
                let mut state = self.job.lock();
                state.engine.lane_refused();
                if self.connection > 0
                    && !state.channels.iter().any(|open| open.connection == self.connection)
                {
                    cx.stop(0);
                }
            }
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
        if let Some(bell) = &self.bell {
            out.add(BELL, bell.fd(), Interest::READ);
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
        if let (BELL, Some(bell)) = (token, &self.bell) {
            bell.hear();
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
