//! Link: a transport with its descriptors.

mod error;
mod facts;
mod leave;
mod limited;
mod operations;
mod workers;

pub use error::{LinkError, Stage};
pub use leave::{LEAVE_ENDINGS, Leave, Leaving};

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lh_transport::{Event, Job, Transport, TransportError};
use lh_wire::msg::{Ignore, Rest};
use lh_wire::peer::Peer;
use lh_wire::{Message as _, PacketSink as _};

use crate::limits::Limits;
use crate::pace::{self, Pace};
use crate::poller::{Interest, Interests};
use crate::share::SHARE_PER_TURN;
use crate::stream::Stream;
use crate::worker_pool::{WorkerPool, WorkerScaling, Workers};

/// Received bytes that workers may hold before the socket is no longer read.
const AHEAD_STOP: usize = 4 << 20;

/// Unsent bytes before a login beyond which the peer is no longer read. A login has few requests, so this
/// only stops peers that make us answer and do not read.
const UNSENT_STOP: usize = 256 << 10;

/// Unsent bytes of answers after a login, beside the queue of bulk data, beyond which the peer is no longer
/// read: one that keeps sending requests and never reads the answers must not fill our memory. Far more than
/// correct peers have on the way, so that two of them never wait for each other.
const ANSWERS_STOP: usize = 1 << 20;

/// Received bytes up to which [`Link::acknowledge_early`] applies: a login and the start of a session have a
/// few thousand, and a short command's output some more.
const EARLY: usize = 64 << 10;

/// Consecutive reads of the socket before other work gets its turn.
const READS_PER_TURN: usize = 8;

/// A transport with its descriptors, and the worker pool for its packets while a driver runs. Can be sent to
/// another thread.
pub struct Link {
    transport: Transport,
    stream: Stream,
    read_ended: bool,
    /// The last write was partial.
    write_blocked: bool,
    /// Write error, and the time until which the peer's remaining data is still read.
    write_failed: Option<(io::Error, Instant)>,
    limits: Limits,
    pace: Pace,
    scaling: WorkerScaling,
    pool: Option<WorkerPool>,
    /// Largest number of workers so far.
    most_workers: usize,
    /// Empty between calls; kept for its allocation.
    done: Vec<Job>,
    /// Jobs have come back, and the transport has not been polled for their events yet.
    unseen: bool,
    /// The link is broken, and the session waits for another one ([`lose`](Self::lose)).
    lost: bool,
    /// Unsent bytes of what an earlier link of the session lost, which are queued before all others.
    sent_again: usize,
    /// Bytes still to be received that the kernel acknowledges at once.
    early: usize,
}

/// Poll token of the worker pool's descriptor; the other descriptors have 0.
pub(crate) const WORKER_POOL: usize = 1;

/// Time for which the peer's last data is read after it stopped taking ours.
const WAIT_AFTER_WRITE_FAILURE: Duration = Duration::from_secs(2);

impl Link {
    /// Combines a transport with its descriptors.
    pub const fn new(transport: Transport, stream: Stream) -> Self {
        Self {
            transport,
            stream,
            read_ended: false,
            write_blocked: false,
            write_failed: None,
            limits: Limits::new(),
            pace: Pace::new(),
            scaling: WorkerScaling::new(Workers::None),
            pool: None,
            most_workers: 0,
            done: Vec::new(),
            unseen: false,
            lost: false,
            sent_again: 0,
            early: 0,
        }
    }

    /// Has the kernel acknowledge what arrives first at once, unless the peer turns out to be Longhaul.
    ///
    /// OpenSSH's server leaves Nagle's algorithm on: the second of two short packets (the answer to `none`
    /// behind SERVICE_ACCEPT, the exit status behind a command's output) waits for the acknowledgement of the
    /// first, which the kernel of a client that has just sent something delays by 40 ms.
    pub const fn acknowledge_early(&mut self) {
        self.early = EARLY;
    }

    /// Closes the descriptors of a broken link; the transport stays, and keeps messages.
    pub(crate) fn lose(&mut self) {
        self.stop_workers();
        (self.unseen, self.write_blocked, self.write_failed) = (false, false, None);
        self.lost = true;
        // Without descriptors for a socket pair the old ones stay open until another link replaces this one.
        if let Ok(stream) = UnixStream::pair().and_then(|(ours, _)| Stream::socket(ours.into())) {
            self.stream = stream;
        }
    }

    /// True after [`lose`](Self::lose).
    pub(crate) const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Takes over what was learnt and configured of the link that this one replaces. The transport has queued
    /// what is to be sent again.
    pub(crate) fn replace(&mut self, old: &mut Self) {
        std::mem::swap(&mut self.scaling, &mut old.scaling);
        self.most_workers = old.most_workers;
        self.limits = std::mem::take(&mut old.limits);
        self.sent_again = self.transport.unsent_bytes();
    }

    /// The transport.
    pub(crate) const fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// The transport, read-only.
    pub(crate) const fn transport_ref(&self) -> &Transport {
        &self.transport
    }

    /// The descriptors.
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Separates transport and descriptors, for a hand-over to another process.
    pub fn into_parts(mut self) -> (Transport, Stream) {
        self.stop_workers();
        (self.transport, self.stream)
    }

    /// Waits for the next event, in the phases without channels: key exchange and authentication.
    ///
    /// Output is flushed before each wait, so not before an event is returned. A caller that neither calls
    /// this again nor runs a [`Driver`](crate::Driver) afterwards must call [`finish`](Self::finish), or the
    /// last messages are never sent.
    ///
    /// # Errors
    /// The connection is over, or `deadline` has passed ([`LinkError::TimedOut`]; waiting again is allowed).
    pub fn next_event(&mut self, deadline: Option<Instant>) -> Result<Event, LinkError> {
        self.stop_workers();
        loop {
            let now = Instant::now();
            match self.transport.poll(now) {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {}
                Err(error) => return Err(self.transport_failed(error)),
            }
            self.flush(now)?;
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Err(LinkError::TimedOut);
            }
            let is_paused = self.limits.pauses_reading();
            let until = [deadline, self.next_deadline()].into_iter().flatten().min();
            let read = !is_paused && self.reads_below(UNSENT_STOP);
            let timeout = until.map(|until| until.saturating_duration_since(now));
            if is_paused {
                if self
                    .stream
                    .wait_paused(self.write_blocked, timeout)
                    .map_err(|error| self.io_failed(error))?
                {
                    return Err(LinkError::Closed { stage: self.stage() });
                }
            } else {
                self.wait(read, timeout)?;
            }
            if read {
                self.read()?;
            }
            self.on_timeout(Instant::now())?;
        }
    }

    /// Writes everything that is queued, for at most `bound`. For last messages: an error only means that the
    /// peer has left already. True when all was written.
    pub fn finish(&mut self, bound: Duration) -> bool {
        self.stop_workers();
        let deadline = Instant::now() + bound;
        loop {
            if self.lost {
                return false;
            }
            let now = Instant::now();
            if self.flush(now).is_err() {
                return false;
            }
            if self.transport.queued_bytes() == 0 {
                return self.write_failed.is_none();
            }
            let mut interests = Interests::new();
            let mut left = deadline.saturating_duration_since(now);
            match self.limits.writes_from() {
                Some(from) => left = left.min(from.saturating_duration_since(now)),
                None => interests.add(0, self.stream.write_fd(), Interest::WRITE),
            }
            if deadline <= now || interests.wait(Some(left), &mut Vec::new()).is_err() {
                return false;
            }
        }
    }

    /// Sends SSH_MSG_DISCONNECT with a reason and a text, and flushes for at most `bound`.
    pub fn disconnect(&mut self, reason: u32, text: &str, bound: Duration) {
        self.transport.disconnect(reason, text);
        self.finish(bound);
    }

    /// Seals what is queued and writes as much as the socket takes and the limits allow.
    pub(crate) fn flush(&mut self, now: Instant) -> Result<(), LinkError> {
        self.write_blocked = false;
        if self.lost {
            return Ok(());
        }
        loop {
            self.take_back();
            if !self.limits.end_pause_of_writing(now) {
                // Not sealed before, so that urgent messages still overtake bulk.
                self.pace.blocked();
                return Ok(());
            }
            self.transport.output(now);
            self.give_out();
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(64);
            self.transport.output_slices(&mut slices);
            let total: usize = slices.iter().map(|slice| slice.len()).sum();
            if total == 0 {
                return Ok(());
            }
            let short = self.limits.shortened(&slices);
            match self.stream.write_vectored(short.as_deref().unwrap_or(&slices)) {
                Ok(n) => {
                    self.transport.written(n);
                    self.limits.written(n);
                    self.sent_again = self.sent_again.saturating_sub(n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.write_blocked = true;
                    self.pace.blocked();
                    return Ok(());
                }
                // The peer may have sent a reason before it left, which says more than "broken pipe".
                Err(error) => {
                    self.transport.written(total);
                    if self.write_failed.is_none() {
                        self.write_failed = Some((error, now + WAIT_AFTER_WRITE_FAILURE));
                    }
                }
            }
        }
    }

    /// Measures the path's rate. Called once a turn of a running driver. `mixed`: interactive channels share
    /// the connection with bulk.
    pub(crate) fn measure(&mut self, now: Instant, mixed: bool) {
        if let Some(room) = self.pace.evaluate(now, self.transport.bytes_out(), mixed) {
            self.stream.set_unsent_limit(room.unsent);
        }
    }

    /// Sets the round-trip time of the socket.
    pub(crate) fn set_round_trip(&mut self, round_trip: Duration) {
        self.pace.round_trip(round_trip);
    }

    /// High-water mark of the output queue, bytes: producers of bulk stop there.
    pub(crate) fn high_water(&self) -> usize {
        // Bytes with workers do not wait for the path.
        self.pace.queue().min(self.limits.queue())
            + self.pool.as_ref().map_or(0, WorkerPool::size) * SHARE_PER_TURN
    }

    /// True while a running driver should read the socket. Bulk data alone, which its producers bound, never
    /// stops the reading, or two peers that both send could wait for each other; hence the largest queue that
    /// there may have been, not the present one. What is sent again after a break is bulk, too, and all of it
    /// is queued at once. A connection ahead of a limit of its input is not read.
    pub(crate) fn reads_on(&self) -> bool {
        let bulk = pace::MOST + self.most_workers * SHARE_PER_TURN + self.sent_again;
        !self.limits.pauses_reading() && self.reads_below(bulk + ANSWERS_STOP)
    }

    /// True while less than `limit` bytes wait for the peer to read them, so that the socket should be read.
    fn reads_below(&self, limit: usize) -> bool {
        self.transport.unsent_bytes() < limit
    }

    /// True while workers hold little enough received data that the socket should be read.
    pub(crate) fn has_room(&self) -> bool {
        self.transport.received_ahead() < AHEAD_STOP
    }

    /// Time at which to call [`on_timeout`](Self::on_timeout).
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let failed = self.write_failed.as_ref().map(|(_, until)| *until);
        [failed, self.transport.next_deadline(), self.limits.next_deadline()].into_iter().flatten().min()
    }

    /// Handles deadlines that have passed.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> Result<(), LinkError> {
        if self.transport.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.transport.handle_timeout(now);
        }
        // Only here, so that a wait without the socket always has this deadline.
        let sign = self.limits.take_sign(now);
        self.limits.end_pause_of_reading(now);
        self.limits.end_pause_of_writing(now);
        if sign && !self.lost {
            // An empty string.
            self.transport.payload(&Ignore::new(Rest(&[0; 4])).to_payload());
        }
        match self.write_failed.take_if(|(_, until)| *until <= now) {
            Some((source, _)) => Err(self.io_failed(source)),
            None => Ok(()),
        }
    }

    /// Lists the descriptors to wait for. `read`: the caller is ready for more events.
    pub(crate) fn interests<'a>(&'a self, read: bool, out: &mut Interests<'a>) {
        if self.lost {
            return;
        }
        let read = read && !self.read_ended && self.has_room();
        if self.stream.write_fd().as_raw_fd() == self.stream.read_fd().as_raw_fd() {
            out.add(0, self.stream.read_fd(), Interest { read, write: self.write_blocked });
        } else {
            out.add(0, self.stream.read_fd(), Interest { read, write: false });
            out.add(0, self.stream.write_fd(), Interest { read: false, write: self.write_blocked });
        }
        if let Some(pool) = self.pool.as_ref().filter(|_| self.transport.jobs_out() > 0) {
            out.add(WORKER_POOL, pool.fd(), Interest::READ);
        }
    }

    fn wait(&self, read: bool, timeout: Option<Duration>) -> Result<(), LinkError> {
        let mut interests = Interests::new();
        self.interests(read, &mut interests);
        interests.wait(timeout, &mut Vec::new()).map_err(|source| self.io_failed(source))
    }

    /// Reads from the socket once. True when the buffer was filled, so that there may be more.
    pub(crate) fn read(&mut self) -> Result<bool, LinkError> {
        if self.read_ended {
            return Ok(false);
        }
        let most = self.limits.read_at_once();
        let space = self.transport.recv_space();
        let size = space.len().min(most);
        match self.stream.read(space.get_mut(..size).unwrap_or_default()) {
            Ok(0) => {
                self.read_ended = true;
                self.transport.received_eof();
                Ok(false)
            }
            Ok(n) => {
                self.transport.received(n);
                self.limits.received(n);
                if self.early > 0 {
                    self.acknowledge(n);
                }
                Ok(n == size)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(source) => Err(self.io_failed(source)),
        }
    }

    /// Has the kernel acknowledge the `received` bytes, and counts them.
    fn acknowledge(&mut self, received: usize) {
        self.early = match self.transport.peer() {
            Peer::Longhaul => 0,
            _ => self.early.saturating_sub(received),
        };
        if self.early > 0 {
            // Without it the peer waits a little.
            let _ = lh_sys::socket::acknowledge_now(self.stream.read_fd());
        }
    }

    /// Number of consecutive [`read`](Self::read) calls in one turn.
    pub(crate) const fn reads_per_turn() -> usize {
        READS_PER_TURN
    }

    /// Ends the link after a transport error: flushes the last messages without waiting for the peer.
    pub(crate) fn transport_failed(&mut self, error: TransportError) -> LinkError {
        self.stop_workers();
        let _ = self.flush(Instant::now());
        match error {
            TransportError::Closed { .. } => LinkError::Closed { stage: self.stage() },
            error => LinkError::Transport(error),
        }
    }

    fn io_failed(&self, source: io::Error) -> LinkError {
        LinkError::Io { stage: self.stage(), source }
    }

    /// Progress of the connection.
    pub fn stage(&self) -> Stage {
        if self.transport.peer_identification().is_none() {
            Stage::Identification
        } else if self.transport.session_id().is_none() {
            Stage::KeyExchange
        } else {
            Stage::Established
        }
    }
}
