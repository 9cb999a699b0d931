//! A transport with its descriptors.

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use lh_transport::{Event, Job, Transport, TransportError};

use crate::core::SHARE_PER_TURN;
use crate::crew::{Advice, Crew, Recruiter, Workers};
use crate::pace::Pace;
use crate::poller::{Interest, Interests};
use crate::stream::Stream;

/// How far a connection had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The peer's identification line had not arrived (OpenSSH: `kex_exchange_identification: …`).
    Identification,
    /// The first key exchange was not complete.
    KeyExchange,
    /// Keys were in use.
    Established,
}

/// Why a link cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The peer closed the connection.
    #[error("connection closed by remote host")]
    Closed {
        /// When.
        stage: Stage,
    },
    /// The socket failed, a reset by the peer included.
    #[error("{source}")]
    Io {
        /// When.
        stage: Stage,
        /// What the kernel says.
        source: io::Error,
    },
    /// The protocol failed; the peer has been told why where that makes sense.
    #[error(transparent)]
    Transport(TransportError),
    /// Nothing came before the deadline.
    #[error("timed out")]
    TimedOut,
}

/// So much that has been received and is still with workers is enough: the socket can wait.
const AHEAD_STOP: usize = 4 << 20;

/// Bytes that may wait for a peer to read them before a login: from then on nothing more of it is read. Its requests
/// are few, so this is for those who make us answer and do not listen.
const UNSENT_STOP: usize = 256 << 10;

/// Reads of the socket in a row before anything else gets its turn.
const READS_PER_TURN: usize = 8;

/// A transport with its descriptors, and threads that help with its packets while a driver runs. Can be sent to another
/// thread.
pub struct Link {
    transport: Transport,
    stream: Stream,
    read_ended: bool,
    /// The last write did not take everything.
    write_blocked: bool,
    /// Writing has failed: what the peer said before it left is still read, but not for longer than this.
    write_failed: Option<(io::Error, Instant)>,
    pace: Pace,
    recruiter: Recruiter,
    crew: Option<Crew>,
    /// Empty; kept for its memory.
    done: Vec<Job>,
    /// Jobs have come back, and nobody has asked the transport since what they mean.
    unseen: bool,
}

/// Token of the crew's descriptor; the others' is 0.
pub(crate) const CREW: usize = 1;

/// How long the peer's last words are waited for when it does not take ours any more.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Link {
    /// Joins the two.
    pub const fn new(transport: Transport, stream: Stream) -> Self {
        Self {
            transport,
            stream,
            read_ended: false,
            write_blocked: false,
            write_failed: None,
            pace: Pace::new(),
            recruiter: Recruiter::new(Workers::None),
            crew: None,
            done: Vec::new(),
            unseen: false,
        }
    }

    /// The protocol side.
    pub const fn transport(&mut self) -> &mut Transport {
        &mut self.transport
    }

    /// The protocol side, to look at.
    pub const fn transport_ref(&self) -> &Transport {
        &self.transport
    }

    /// The descriptors.
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Takes the two apart, for a hand-over to another process.
    pub fn into_parts(mut self) -> (Transport, Stream) {
        self.dismiss();
        (self.transport, self.stream)
    }

    /// Waits for the next event. For the phases where nothing else happens: key exchange and authentication.
    ///
    /// Output is flushed before each wait, so not before an event is returned: whoever calls neither this again
    /// nor runs a [`Driver`](crate::Driver) afterwards calls [`finish`](Self::finish), or the peer never hears the last words.
    ///
    /// # Errors
    /// The connection is over, or `deadline` has passed ([`LinkError::TimedOut`]; waiting again is allowed).
    pub fn next_event(&mut self, deadline: Option<Instant>) -> Result<Event, LinkError> {
        self.dismiss();
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
            let until = [deadline, self.next_deadline()].into_iter().flatten().min();
            let read = self.reads_below(UNSENT_STOP);
            self.wait(read, until.map(|until| until.saturating_duration_since(now)))?;
            if read {
                self.read()?;
            }
            self.on_timeout(Instant::now())?;
        }
    }

    /// Writes everything that is queued, for at most `bound`. For goodbyes: errors are the peer's way of having
    /// left already. True when all was written.
    pub fn finish(&mut self, bound: Duration) -> bool {
        self.dismiss();
        let deadline = Instant::now() + bound;
        loop {
            let now = Instant::now();
            if self.flush(now).is_err() {
                return false;
            }
            if self.transport.queued_bytes() == 0 {
                return self.write_failed.is_none();
            }
            let mut interests = Interests::new();
            interests.add(0, self.stream.write_fd(), Interest::WRITE);
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() || interests.wait(Some(left), &mut Vec::new()).is_err() {
                return false;
            }
        }
    }

    /// Says goodbye with a reason and a text, and flushes for at most `bound`.
    pub fn disconnect(&mut self, reason: u32, text: &str, bound: Duration) {
        self.transport.disconnect(reason, text);
        self.finish(bound);
    }

    /// Seals what is queued and writes as much as the socket takes.
    pub(crate) fn flush(&mut self, now: Instant) -> Result<(), LinkError> {
        self.write_blocked = false;
        loop {
            self.take_back();
            self.transport.output(now);
            self.give_out();
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(64);
            self.transport.output_slices(&mut slices);
            let total: usize = slices.iter().map(|slice| slice.len()).sum();
            if total == 0 {
                return Ok(());
            }
            match self.stream.write_vectored(&slices) {
                Ok(n) => self.transport.written(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.write_blocked = true;
                    self.pace.blocked();
                    return Ok(());
                }
                // The peer may have said why before it left: that is worth more than "broken pipe".
                Err(error) => {
                    self.transport.written(total);
                    if self.write_failed.is_none() {
                        self.write_failed = Some((error, now + LAST_WORDS));
                    }
                }
            }
        }
    }

    /// How many threads may seal and open packets while a driver runs.
    pub const fn set_workers(&mut self, workers: Workers) {
        self.recruiter = Recruiter::new(workers);
    }

    /// Lets workers join or leave. Once a turn of a running driver.
    /// `spun`: how long the loop has only looked busy.
    pub(crate) fn recruit(&mut self, now: Instant, spun: Duration) {
        let bytes = self.transport.bytes_in() + self.transport.bytes_out();
        match self.recruiter.look(now, spun, bytes, self.crew.is_some()) {
            Advice::Stay => {}
            Advice::Leave => self.dismiss(),
            Advice::Join(n) => match Crew::start(n) {
                Ok(crew) => {
                    self.crew = Some(crew);
                    self.transport.set_workers(true);
                }
                // It works without, and asking again would not help.
                Err(_) => self.recruiter = Recruiter::new(Workers::Exactly(0)),
            },
        }
    }

    /// Measures the path. Once a turn of a running driver.
    pub(crate) fn measure(&mut self, now: Instant) {
        if let Some(room) = self.pace.look(now, self.transport.bytes_out()) {
            self.stream.set_unsent_limit(room.unsent);
        }
    }

    /// The round trip of the socket.
    pub(crate) fn set_round_trip(&mut self, round_trip: Duration) {
        self.pace.round_trip(round_trip);
    }

    /// What may be queued before producers of bulk wait.
    pub(crate) fn high_water(&self) -> usize {
        // What is with workers does not wait for the path.
        self.pace.queue() + self.crew.as_ref().map_or(0, Crew::size) * SHARE_PER_TURN
    }

    /// Ends all threads; what they had is done.
    pub(crate) fn dismiss(&mut self) {
        if let Some(crew) = &self.crew {
            crew.finish();
            self.take_back();
            self.transport.set_workers(false);
            self.transport.run_jobs();
            self.unseen = true;
            self.crew = None;
        }
    }

    /// Hands over what the transport has for workers.
    pub(crate) fn give_out(&mut self) {
        let Some(crew) = &self.crew else { return self.transport.run_jobs() };
        while let Some(job) = self.transport.next_job() {
            crew.submit(job);
        }
    }

    /// Brings back what workers have done; true when there was something.
    pub(crate) fn take_back(&mut self) -> bool {
        let Some(crew) = &self.crew else { return false };
        crew.collect(&mut self.done);
        let some = !self.done.is_empty();
        for job in self.done.drain(..) {
            self.transport.finish_job(job);
        }
        self.unseen |= some;
        some
    }

    /// Everything that the transport has to say will be asked for now.
    pub(crate) const fn see(&mut self) {
        self.unseen = false;
    }

    /// A job is done, or could be done here, so that there is no reason to wait.
    pub(crate) fn has_work(&self) -> bool {
        self.unseen || (self.transport.jobs_out() > 0 && self.crew.as_ref().is_some_and(Crew::is_ready))
    }

    /// The loop is about to wait; false when it should not.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.transport.jobs_out() == 0 || self.crew.as_ref().is_none_or(Crew::fall_asleep)
    }

    /// The wait is over.
    pub(crate) fn wake_up(&self) {
        if let Some(crew) = self.crew.as_ref().filter(|_| self.transport.jobs_out() > 0) {
            crew.wake_up();
        }
    }

    /// Does one job that no worker has taken.
    pub(crate) fn help(&self) {
        if let Some(crew) = &self.crew {
            crew.help();
        }
    }

    /// The socket should be read: less than `limit` bytes wait for the peer to read them.
    pub(crate) fn reads_below(&self, limit: usize) -> bool {
        self.transport.unsent_bytes() < limit
    }

    /// The socket should be read: there is not too much already.
    pub(crate) fn has_room(&self) -> bool {
        self.transport.received_ahead() < AHEAD_STOP
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let failed = self.write_failed.as_ref().map(|(_, until)| *until);
        [failed, self.transport.next_deadline()].into_iter().flatten().min()
    }

    /// Time has passed.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> Result<(), LinkError> {
        if self.transport.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.transport.handle_timeout(now);
        }
        match self.write_failed.take_if(|(_, until)| *until <= now) {
            Some((source, _)) => Err(self.io_failed(source)),
            None => Ok(()),
        }
    }

    /// What the loop should wait for. `read`: the caller is ready for more events.
    pub(crate) fn interests<'a>(&'a self, read: bool, out: &mut Interests<'a>) {
        let read = read && !self.read_ended && self.has_room();
        if self.stream.write_fd().as_raw_fd() == self.stream.read_fd().as_raw_fd() {
            out.add(0, self.stream.read_fd(), Interest { read, write: self.write_blocked });
        } else {
            out.add(0, self.stream.read_fd(), Interest { read, write: false });
            out.add(0, self.stream.write_fd(), Interest { read: false, write: self.write_blocked });
        }
        if let Some(crew) = self.crew.as_ref().filter(|_| self.transport.jobs_out() > 0) {
            out.add(CREW, crew.fd(), Interest::READ);
        }
    }

    fn wait(&self, read: bool, timeout: Option<Duration>) -> Result<(), LinkError> {
        let mut interests = Interests::new();
        self.interests(read, &mut interests);
        interests.wait(timeout, &mut Vec::new()).map_err(|source| self.io_failed(source))
    }

    /// Reads once what the socket has. True when the buffer was filled, so that there may be more.
    pub(crate) fn read(&mut self) -> Result<bool, LinkError> {
        if self.read_ended {
            return Ok(false);
        }
        let space = self.transport.recv_space();
        let room = space.len();
        match self.stream.read(space) {
            Ok(0) => {
                self.read_ended = true;
                self.transport.received_eof();
                Ok(false)
            }
            Ok(n) => {
                self.transport.received(n);
                Ok(n == room)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(source) => Err(self.io_failed(source)),
        }
    }

    /// How often [`read`](Self::read) may be called in a row.
    pub(crate) const fn reads_per_turn() -> usize {
        READS_PER_TURN
    }

    /// The transport gave up: its last words go out, without waiting for a peer that does not listen.
    pub(crate) fn transport_failed(&mut self, error: TransportError) -> LinkError {
        self.dismiss();
        let _ = self.flush(Instant::now());
        match error {
            TransportError::Closed { .. } => LinkError::Closed { stage: self.stage() },
            error => LinkError::Transport(error),
        }
    }

    fn io_failed(&self, source: io::Error) -> LinkError {
        LinkError::Io { stage: self.stage(), source }
    }

    /// How far the connection has come.
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
