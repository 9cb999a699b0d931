//! What the peer sent, on its way into a local descriptor that may be slow.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Bytes, BytesMut};

use crate::local_fd::LocalFd;

/// Slices in one write.
const SLICES: usize = 64;

// A received slice keeps the receive buffer alive that it lies in, a megabyte with other channels' bytes in it. As
// long as a sink keeps up that costs nothing. While it is stuck, only so much is kept by reference, and nothing that is
// small; the rest is copied, so that memory stays near what the window allows.
/// Bytes that a stuck sink keeps by reference: a window that has not grown, so that a sink which is merely slower than the
/// path costs no copy.
const SHARED_MAX: usize = 2 << 20;
/// Slices smaller than this are copied while the sink is stuck.
const SHARED_MIN: usize = 24 << 10;
/// Size of the buffers that small things are copied to.
const COPY_CHUNK: usize = 256 << 10;

/// A queue in front of a descriptor.
pub(crate) struct Sink {
    /// `None` once it is closed or broken: everything is dropped then.
    fd: Option<LocalFd>,
    queue: VecDeque<Bytes>,
    /// Copied bytes behind the queue.
    tail: BytesMut,
    queued: usize,
    /// Bytes in the queue that were taken by reference while stuck.
    shared: usize,
    /// The descriptor takes no more for now.
    stuck: bool,
    /// Close when everything is written.
    ending: bool,
    written: u64,
    error: Option<io::Error>,
}

impl Sink {
    pub(crate) fn new(fd: LocalFd) -> Self {
        Self {
            fd: Some(fd),
            queue: VecDeque::new(),
            tail: BytesMut::new(),
            queued: 0,
            shared: 0,
            stuck: false,
            ending: false,
            written: 0,
            error: None,
        }
    }

    /// The descriptor, when it is to be waited for.
    pub(crate) fn waits_for(&self) -> Option<&LocalFd> {
        self.fd.as_ref().filter(|_| self.stuck)
    }

    /// True when nothing will be written any more.
    pub(crate) const fn is_closed(&self) -> bool {
        self.fd.is_none()
    }

    /// Bytes that reached the descriptor.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Why writing failed.
    pub(crate) const fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Bytes that wait.
    pub(crate) const fn queued(&self) -> usize {
        self.queued
    }

    /// Takes bytes, or refuses them when they would go nowhere.
    #[must_use]
    pub(crate) fn push(&mut self, data: Bytes) -> bool {
        if self.fd.is_none() || self.ending {
            return false;
        }
        self.queued += data.len();
        if self.stuck {
            self.keep(data);
        } else {
            self.queue.push_back(data);
        }
        true
    }

    /// Writes what fits. Returns the bytes that have left the queue, written or (on an error) dropped.
    pub(crate) fn flush(&mut self) -> usize {
        let before = self.queued;
        self.stuck = false;
        while self.queued > 0 {
            if !self.tail.is_empty() {
                self.queue.push_back(self.tail.split().freeze());
            }
            let Some(fd) = &self.fd else { break };
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.queue) {
                *slice = IoSlice::new(piece);
                count += 1;
            }
            match fd.write_vectored(&slices[..count]) {
                Ok(n) => self.advance(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stuck = true;
                    break;
                }
                Err(error) => {
                    self.error = Some(error);
                    self.close();
                }
            }
        }
        if self.stuck && before == self.queued {
            // Nothing moved: what is queued has been looked at already.
        } else if self.stuck {
            self.shared = 0;
            for piece in std::mem::take(&mut self.queue) {
                self.keep(piece);
            }
        }
        if self.ending && self.queued == 0 {
            self.close();
        }
        before - self.queued
    }

    /// No more comes: closes as soon as everything is written.
    pub(crate) fn end(&mut self) {
        self.ending = true;
        if self.queued == 0 {
            self.close();
        }
    }

    /// Closes now; what is queued is dropped. Returns its length.
    pub(crate) fn close(&mut self) -> usize {
        if let Some(fd) = self.fd.take() {
            fd.shutdown_write();
        }
        self.queue.clear();
        self.tail = BytesMut::new();
        self.stuck = false;
        std::mem::take(&mut self.queued)
    }

    /// Queues bytes that will stay for a while.
    fn keep(&mut self, data: Bytes) {
        if data.len() >= SHARED_MIN && self.shared + data.len() <= SHARED_MAX {
            self.shared += data.len();
            if !self.tail.is_empty() {
                self.queue.push_back(self.tail.split().freeze());
            }
            self.queue.push_back(data);
            return;
        }
        if self.tail.capacity() - self.tail.len() < data.len() {
            if !self.tail.is_empty() {
                self.queue.push_back(self.tail.split().freeze());
            }
            self.tail = BytesMut::with_capacity(COPY_CHUNK.max(data.len()));
        }
        self.tail.extend_from_slice(&data);
    }

    fn advance(&mut self, n: usize) {
        self.queued -= n;
        self.written += n as u64;
        let mut rest = n;
        while let Some(first) = self.queue.front_mut() {
            if rest < first.len() {
                bytes::Buf::advance(first, rest);
                break;
            }
            rest -= first.len();
            self.queue.pop_front();
        }
    }
}
