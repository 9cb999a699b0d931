//! The socket between two processes: whole messages, bounded in length and in time.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lh_wire::{WireError, Writer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zeroize::{Zeroize as _, Zeroizing};

use super::{MAX_HAND_OVER, MonitorRequest};

/// Upper bound of an answer, bytes. The largest is the grant with the serialized connection.
const LARGEST_ANSWER: usize = MAX_HAND_OVER + (1 << 20);

/// Longest wait for the other side to read a message.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why an exchange of messages failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MonitorSocketError {
    /// The other process has closed its end.
    #[error("the other process has ended")]
    Closed,
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The message cannot be decoded.
    #[error("malformed message: {0}")]
    Malformed(#[from] WireError),
    /// The message is longer than allowed.
    #[error("message of {0} bytes")]
    TooLong(usize),
}

/// One end of the socket between two processes.
#[derive(Debug)]
pub(crate) struct MonitorSocket {
    socket: UnixStream,
    /// Received bytes of an incomplete message.
    inbox: Zeroizing<Vec<u8>>,
}

impl MonitorSocket {
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { socket, inbox: Zeroizing::default() })
    }

    /// Returns the socket to poll.
    pub(crate) const fn socket(&self) -> &UnixStream {
        &self.socket
    }

    pub(crate) fn send(&self, message: &[u8]) -> Result<(), MonitorSocketError> {
        let mut framed = Zeroizing::new(Vec::with_capacity(message.len() + 4));
        framed.put_string(message);
        Ok((&self.socket).write_all(&framed)?)
    }

    /// Waits for an answer, blocking: the caller has nothing else to do.
    pub(crate) fn receive(&mut self) -> Result<Zeroizing<Vec<u8>>, MonitorSocketError> {
        loop {
            if let Some(message) = self.next(LARGEST_ANSWER)? {
                return Ok(message);
            }
            self.read()?;
        }
    }

    /// Like [`receive`](Self::receive), but only until `deadline`, and without reading beyond the message: a
    /// byte that carries a descriptor may follow.
    pub(crate) fn receive_until(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Zeroizing<Vec<u8>>, MonitorSocketError> {
        loop {
            if let Some(message) = self.next(LARGEST_ANSWER)? {
                return Ok(message);
            }
            let timeout = deadline.map(|deadline| {
                let left = deadline.saturating_duration_since(Instant::now());
                let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
                Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() }
            });
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], timeout.as_ref()) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
                Ok(_) => self.read_at_most(self.missing())?,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }

    pub(crate) fn ask(&mut self, request: &MonitorRequest) -> Result<Zeroizing<Vec<u8>>, MonitorSocketError> {
        self.send(&request.encode())?;
        self.receive()
    }

    /// Requests a signature; an empty answer is a refusal.
    pub(crate) fn ask_signature(&mut self, request: &MonitorRequest) -> Result<Vec<u8>, MonitorSocketError> {
        let answer = self.ask(request)?;
        if answer.is_empty() {
            return Err(io::Error::other("refused by the monitor").into());
        }
        Ok(answer.to_vec())
    }

    /// Returns the number of bytes that are missing to the next message, as far as its length is known.
    fn missing(&self) -> usize {
        let length = self.inbox.first_chunk::<4>().map_or(0, |length| u32::from_be_bytes(*length) as usize);
        (length + 4).saturating_sub(self.inbox.len())
    }

    /// Reads once, blocking until bytes arrive. The monitor calls it after poll has reported bytes, so that a
    /// sender that stops in the middle of a message does not block it.
    pub(crate) fn read(&mut self) -> Result<(), MonitorSocketError> {
        self.read_at_most(usize::MAX)
    }

    fn read_at_most(&mut self, most: usize) -> Result<(), MonitorSocketError> {
        let mut buffer = [0; 16 * 1024];
        let (space, _) = buffer.split_at_mut(most.min(16 * 1024));
        match self.socket.read(space) {
            Ok(0) => Err(MonitorSocketError::Closed),
            Ok(n) => {
                if self.inbox.capacity() - self.inbox.len() < n {
                    // Grown by hand, so that the old allocation is wiped.
                    let mut larger = Zeroizing::new(Vec::with_capacity((self.inbox.len() + n) * 2));
                    larger.extend_from_slice(&self.inbox);
                    self.inbox = larger;
                }
                let (came, _) = buffer.split_at_mut(n.min(16 * 1024));
                self.inbox.extend_from_slice(came);
                // Only the filled part is wiped: wiping costs at least an instruction for each byte.
                came.zeroize();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(MonitorSocketError::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the next complete message of at most `largest` bytes.
    pub(crate) fn next(&mut self, largest: usize) -> Result<Option<Zeroizing<Vec<u8>>>, MonitorSocketError> {
        let Some((length, content)) = self.inbox.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > largest {
            return Err(MonitorSocketError::TooLong(length));
        }
        let Some((message, rest)) = content.split_at_checked(length) else { return Ok(None) };
        let message = Zeroizing::new(message.to_vec());
        self.inbox = Zeroizing::new(rest.to_vec());
        Ok(Some(message))
    }
}
