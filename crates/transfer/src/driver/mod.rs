//! The engine on channels of the readiness loop.
//!
//! A [`Job`] is an engine with a [`JobHandler`] for each remote end. One end needs no more than its driver's
//! thread. Two ends (a copy from one remote host to another) have a driver each, usually on two threads: the
//! engine is behind a lock, and a byte in a socket pair wakes the other side when there is something for it
//! to send. Additional connections to the same end ([`crate::AdditionalConnections`]) have a driver on a
//! thread each, for their channels and ciphers, and wake the others in the same way.
//!
//! No thread holds the lock while it reads, writes or hashes a range of a large file ([`file_work`]). Small
//! files, which travel several in a message, are read and written under it: each takes microseconds.

mod file_work;
mod handler;
mod lent;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use lh_driver::{ChannelHandler, ChannelId};

use crate::additional_connection::Waker;
use crate::{Current, Direction, Engine, Event, Options, Plan, Side, Summary, Totals, Waits, Wakes};

pub use handler::JobHandler;

/// Receives the events of a copy. Called on the thread of a driver; must not block for long.
pub trait Report: Send {
    /// Something happened.
    fn event(&mut self, event: Event, now: Instant);

    /// Returns false when progress is not shown: then [`Report::progress`] and [`Report::totals`] are not
    /// called.
    fn wants_progress(&self) -> bool;

    /// Takes the file whose data move, after every turn in which something happened.
    fn progress(&mut self, current: Option<Current<'_>>, now: Instant);

    /// Takes the progress of the whole copy; called before [`Report::progress`].
    fn totals(&mut self, _totals: Totals, _now: Instant) {}

    /// The copy has come to its end, or to the end of its connection.
    fn ended(&mut self, _summary: &Summary, _now: Instant) {}

    /// Returns the time at which [`Report::progress`] is to be called although nothing happens.
    fn next_deadline(&self) -> Option<Instant>;
}

struct State {
    engine: Engine,
    report: Box<dyn Report>,
    /// The channels to the remote end: the first one, and further ones ([`Engine::open_channel`]).
    channels: Vec<Open>,
    /// Channels to be opened after all, where a connection was to be had instead.
    instead: usize,
    /// Time at which the load of the first connection is looked at next.
    next_look: Option<Instant>,
    wakes: Wakes,
    /// A signal has come: partial files and the journal are kept for resuming.
    stopped: bool,
    /// The session of the first channel is lent, and given back at the end.
    lent: bool,
    /// The connections whose part in it is over.
    over: Vec<usize>,
    /// The SFTP server has ended before the copy, on a connection that may go on.
    server_ended: bool,
}

/// A channel of one of the connections.
#[derive(Clone, Copy)]
struct Open {
    connection: usize,
    number: usize,
    id: ChannelId,
}

/// Makes a session channel that runs the SFTP subsystem of one that only knows what to do with its bytes.
pub type AsSession = Arc<dyn Fn(Box<dyn ChannelHandler>) -> Box<dyn ChannelHandler> + Send + Sync>;

struct Shared {
    state: Mutex<State>,
    relay: bool,
    /// See [`Job::interrupt`].
    interrupted: AtomicBool,
    /// See [`Job::has_noticed_interrupt`].
    noticed: AtomicBool,
    /// Writing ends; a byte wakes the handler of that side.
    wake: [UnixStream; 2],
    /// Wakers of all connections to one end, the first connection's first.
    wakers: Mutex<Vec<Arc<Waker>>>,
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
        let relay = plan.direction == Direction::Relay;
        Self::of(Engine::new(plan, options, Instant::now()), relay, report)
    }

    fn of(engine: Engine, relay: bool, report: Box<dyn Report>) -> std::io::Result<Self> {
        let pair = || {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            theirs.set_nonblocking(true)?;
            std::io::Result::Ok((ours, theirs))
        };
        let (source, target) = (pair()?, pair()?);
        let state = State {
            engine,
            report,
            channels: Vec::new(),
            instead: 0,
            next_look: None,
            wakes: Wakes::default(),
            stopped: false,
            lent: false,
            over: Vec::new(),
            server_ended: false,
        };
        Ok(Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                relay,
                interrupted: AtomicBool::new(false),
                noticed: AtomicBool::new(false),
                wake: [source.1, target.1],
                wakers: Mutex::new(vec![Arc::new(Waker::new()?)]),
            }),
            listen: Arc::new([source.0, target.0]),
        })
    }

    /// An additional connection to the end that has one stands; returns its number, from 1.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn additional_connection(&self) -> std::io::Result<usize> {
        let waker = Arc::new(Waker::new()?);
        let mut wakers = self.shared.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.push(waker);
        let number = wakers.len() - 1;
        drop(wakers);
        self.lock().engine.connection_came();
        Ok(number)
    }

    /// Nothing came of [`AdditionalConnections::another`](crate::AdditionalConnections::another).
    pub fn another_failed(&self) {
        self.lock().engine.connection_refused();
    }

    /// No connection came of it. `beyond`: it was to be had because the server allows no more channels.
    pub fn connection_failed(&self, beyond: bool) {
        let mut state = self.lock();
        if beyond {
            state.engine.channel_refused();
        } else {
            state.instead += 1;
        }
        drop(state);
        self.notify(|_| true);
    }

    /// Ends the use of an additional connection that is gone.
    pub fn connection_lost(&self, connection: usize, reason: &str) {
        let now = Instant::now();
        let mut state = self.lock();
        state.lose(connection, reason, now);
        state.tell(now);
        drop(state);
        self.notify(|_| true);
    }

    /// Takes in the round-trip time of the first connection; see [`Engine::expect_round_trip`].
    pub fn expect_round_trip(&self, took: Duration) {
        self.lock().engine.expect_round_trip(took);
    }

    /// The copy `shares` its connection with others (`ControlMaster`), or not. On a shared one it takes no
    /// more sessions for small files than one, unless the user says how many.
    pub fn share_connection(&self, shares: bool) {
        self.lock().engine.share_connection(shares);
    }

    /// Reports what was decided about the copy's connections.
    pub fn remark(&self, text: String) {
        self.lock().report.event(Event::Notice { text }, Instant::now());
    }

    fn waker(&self, connection: usize) -> Option<Arc<Waker>> {
        let wakers = self.shared.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.get(connection).cloned().filter(|_| !self.shared.relay)
    }

    /// Wakes the connections that are `wanted`.
    fn notify(&self, wanted: impl Fn(usize) -> bool) {
        let wakers = self.shared.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers
            .iter()
            .enumerate()
            .filter(|(connection, _)| wanted(*connection))
            .for_each(|(_, waker)| waker.notify());
    }

    /// The connection of `side` is gone, or never came to be; see [`Engine::lost`].
    pub fn lost(&self, side: Side, reason: &str) {
        let now = Instant::now();
        let mut state = self.lock();
        state.engine.lost(side, reason, now);
        state.tell(now);
        drop(state);
        self.wake_other(side);
        self.notify(|_| true);
    }

    /// Stops the copy where it is: partial files and the journal are kept for resuming. The loops do that;
    /// this does not wait for them.
    pub fn interrupt(&self) {
        self.shared.interrupted.store(true, Ordering::Release);
        for side in [Side::Source, Side::Target] {
            self.wake_other(side);
        }
        self.notify(|_| true);
    }

    /// Returns true when a loop has stopped the copy because of [`Job::interrupt`].
    pub fn has_noticed_interrupt(&self) -> bool {
        self.shared.noticed.load(Ordering::Acquire)
    }

    /// Stops the copy where it is, without its loops: their threads hang in system calls. Returns the numbers
    /// of the copy; `None` if one of these threads holds the engine, so that the journal lacks what it would
    /// have written next.
    pub fn stop_without_loops(&self) -> Option<Summary> {
        self.shared.interrupted.store(true, Ordering::Release);
        let mut state = match self.shared.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.stop_if_interrupted(&mut state);
        Some(state.engine.summary())
    }

    fn stop_if_interrupted(&self, state: &mut State) {
        if self.shared.interrupted.load(Ordering::Acquire) && !state.stopped {
            state.stopped = true;
            state.engine.leave();
            self.shared.noticed.store(true, Ordering::Release);
        }
    }

    /// The copy has not begun, and will not: there was no login.
    pub fn forget(&self) {
        self.lock().engine.leave_unbegun();
    }

    /// Returns true when a signal has stopped the copy: partial files and the journal are kept for resuming.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// The login is over; see [`Engine::expect_version`].
    pub fn expect_version(&self, side: Side, within: Option<Duration>) {
        self.lock().engine.expect_version(side, within);
        // The handler may have been there before the login, and looked for nothing.
        self.notify(|_| true);
    }

    /// Returns true when the SFTP server of `side` has answered at all. One that never did will not do so at
    /// the next attempt.
    pub fn has_begun(&self, side: Side) -> bool {
        self.lock().engine.has_begun(side)
    }

    /// Returns true when the SFTP server has ended before the copy (it was killed, say). Its connection may
    /// still be usable.
    pub fn has_lost_server(&self) -> bool {
        self.lock().server_ended
    }

    /// Returns true where `side` was given up because its server did not answer the first message in time.
    pub fn has_given_up(&self, side: Side) -> bool {
        self.lock().engine.has_given_up(side)
    }

    /// Returns true when nothing is left to do.
    pub fn is_finished(&self) -> bool {
        self.lock().engine.is_finished()
    }

    /// Returns the times that the copy has spent waiting, so far.
    pub fn waits(&self) -> Waits {
        self.lock().engine.waits()
    }

    /// Returns the numbers of the copy, so far.
    pub fn summary(&self) -> Summary {
        self.lock().engine.summary()
    }

    /// Returns the sources of an upload of which something was not copied, so far.
    pub fn failed_sources(&self) -> Vec<Vec<u8>> {
        self.lock().engine.failed_sources()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_other(&self, side: Side) {
        if self.shared.relay {
            // A full socket holds enough bytes to wake the other side.
            let _ = (&self.shared.wake[1 - side as usize]).write(&[0]);
        }
    }
}

impl State {
    /// Returns true when nothing is left to do for its connections.
    fn is_over(&self) -> bool {
        self.stopped || if self.lent { self.engine.is_quiet() } else { self.engine.is_finished() }
    }

    /// Reports what has happened and, where it is shown, how far the copy is. Returns when to do that again
    /// although nothing happens.
    fn follow(&mut self, now: Instant) -> Option<Instant> {
        self.tell(now);
        if !self.report.wants_progress() {
            return None;
        }
        self.report.totals(self.engine.totals(), now);
        self.report.progress(self.engine.current(), now);
        self.report.next_deadline()
    }

    /// The channels of a connection are gone.
    fn lose(&mut self, connection: usize, reason: &str, now: Instant) {
        for open in self.channels.extract_if(.., |open| open.connection == connection) {
            self.engine.channel_lost(open.number, reason, now);
        }
    }

    /// Returns the other connections that have got something to do.
    fn others(&mut self, connection: usize) -> Vec<usize> {
        let numbers =
            self.wakes.channels_to_wake(&mut self.engine, self.channels.iter().map(|open| open.number));
        let has_more = |open: &&Open| open.connection != connection && numbers.contains(&open.number);
        self.channels.iter().filter(has_more).map(|open| open.connection).collect()
    }

    fn tell(&mut self, now: Instant) {
        while let Some(event) = self.engine.poll_event() {
            self.report.event(event, now);
        }
    }
}
