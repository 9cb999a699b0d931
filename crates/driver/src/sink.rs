//! Queue for received data in front of a local descriptor that may be slow.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Bytes, BytesMut};

use crate::local_fd::LocalFd;

/// Slices in one write.
const SLICES: usize = 64;

// A received slice keeps its receive buffer alive: a megabyte, which also contains other channels' bytes.
// That costs little as long as a sink keeps up. While a sink is stuck, its waiting data is examined once,
// buffer by buffer:
// - A run of slices that fills most of its buffer is kept by reference: a copy would cost as much memory, and
//   time.
// - Of other buffers only a limited amount is kept by reference, and no small slices; the rest is copied.
//
// So memory stays near the window's size, and each byte is copied at most once, however often the sink gets
// stuck.
/// Largest distance in bytes between consecutive slices of one receive buffer. Packet trailers and headers
/// fill it.
const GAP: usize = 512;
/// Bytes from which a run fills most of its receive buffer.
const RUN_MIN: usize = 512 << 10;
/// Bytes that a stuck sink keeps by reference in buffers that mostly hold other data. It is a window that has
/// not grown, so that a sink that is only slower than the path causes no copy.
const SHARED_MAX: usize = 2 << 20;
/// Size below which slices of such buffers are copied while the sink is stuck.
const SHARED_MIN: usize = 24 << 10;
/// Size of the buffers for copies.
const COPY_CHUNK: usize = 256 << 10;

/// Waiting bytes.
struct Piece {
    data: Bytes,
    /// Counts as kept by reference though its buffer mostly holds other data.
    shared: bool,
}

/// Queue in front of a descriptor.
pub(crate) struct Sink {
    /// `None` once it is closed or has failed: all further data is dropped.
    fd: Option<LocalFd>,
    queue: VecDeque<Piece>,
    /// Number of pieces at the front of the queue that stay as they are; the others have not been examined.
    examined: usize,
    /// Copied bytes, after the queue in order.
    tail: BytesMut,
    /// The last slices of one receive buffer, after the tail in order. More of that buffer may follow.
    run: Vec<Bytes>,
    run_len: usize,
    /// Bytes in queue, tail and run together.
    queued: usize,
    /// Bytes of shared pieces in the queue.
    shared: usize,
    /// The last write was partial.
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
            examined: 0,
            tail: BytesMut::new(),
            run: Vec::new(),
            run_len: 0,
            queued: 0,
            shared: 0,
            stuck: false,
            ending: false,
            written: 0,
            error: None,
        }
    }

    /// The descriptor, when the sink waits for writability.
    pub(crate) fn waits_for(&self) -> Option<&LocalFd> {
        self.fd.as_ref().filter(|_| self.stuck)
    }

    /// True when no more data will be written.
    pub(crate) const fn is_closed(&self) -> bool {
        self.fd.is_none()
    }

    /// Bytes written to the descriptor.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    /// Error of the failed write.
    pub(crate) const fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Number of bytes in the queue.
    pub(crate) const fn queued(&self) -> usize {
        self.queued
    }

    /// Queues bytes; false when the sink is closed or ending.
    #[must_use]
    pub(crate) fn push(&mut self, data: Bytes) -> bool {
        if self.fd.is_none() || self.ending {
            return false;
        }
        self.queued += data.len();
        if self.stuck {
            self.keep(data);
        } else {
            self.queue.push_back(Piece { data, shared: false });
        }
        true
    }

    /// Writes as much as the descriptor takes. Returns the number of bytes that left the queue, written or
    /// (on an error) dropped.
    pub(crate) fn flush(&mut self) -> usize {
        let before = self.queued;
        self.stuck = false;
        self.queue_tail();
        self.queue.extend(self.run.drain(..).map(|data| Piece { data, shared: false }));
        self.run_len = 0;
        while self.queued > 0 {
            let Some(fd) = &self.fd else { break };
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.queue) {
                *slice = IoSlice::new(&piece.data);
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
        if self.stuck {
            for piece in self.queue.split_off(self.examined.min(self.queue.len())) {
                self.keep(piece.data);
            }
        }
        if self.ending && self.queued == 0 {
            self.close();
        }
        before - self.queued
    }

    /// Closes as soon as everything is written.
    pub(crate) fn end(&mut self) {
        self.ending = true;
        if self.queued == 0 {
            self.close();
        }
    }

    /// Closes the descriptor without a word to the peer of a socket, before anything was written: another
    /// process that has it goes on with it. A client whose master refuses its session does.
    pub(crate) fn release(&mut self) {
        self.fd = None;
    }

    /// Closes now and drops the queue. Returns its length in bytes.
    pub(crate) fn close(&mut self) -> usize {
        if let Some(fd) = self.fd.take() {
            fd.shutdown_write();
        }
        self.queue.clear();
        self.examined = 0;
        self.tail = BytesMut::new();
        self.run.clear();
        self.run_len = 0;
        self.shared = 0;
        self.stuck = false;
        std::mem::take(&mut self.queued)
    }

    /// Queues bytes that will wait for a while.
    fn keep(&mut self, data: Bytes) {
        let start = data.as_ptr().addr();
        let follows = self.run.last().is_some_and(|last| {
            let end = last.as_ptr().addr() + last.len();
            start.wrapping_sub(end) <= GAP
        });
        if !follows {
            self.end_run();
        }
        self.run_len += data.len();
        self.run.push(data);
    }

    /// Ends the run: no more data comes from its buffer. Decides how to keep it.
    fn end_run(&mut self) {
        let most = std::mem::take(&mut self.run_len) >= RUN_MIN;
        let mut run = std::mem::take(&mut self.run);
        for data in run.drain(..) {
            let shared = !most && data.len() >= SHARED_MIN && self.shared + data.len() <= SHARED_MAX;
            if shared || most {
                self.queue_tail();
                self.shared += if shared { data.len() } else { 0 };
                self.queue.push_back(Piece { data, shared });
                self.examined = self.queue.len();
            } else {
                self.copy(&data);
            }
        }
        // Reuses the allocation.
        self.run = run;
    }

    fn copy(&mut self, data: &[u8]) {
        if self.tail.capacity() - self.tail.len() < data.len() {
            self.queue_tail();
            self.tail = BytesMut::with_capacity(COPY_CHUNK.max(data.len()));
        }
        self.tail.extend_from_slice(data);
    }

    /// Moves the copied bytes into the queue.
    fn queue_tail(&mut self) {
        if !self.tail.is_empty() {
            self.queue.push_back(Piece { data: self.tail.split().freeze(), shared: false });
            self.examined = self.queue.len();
        }
    }

    fn advance(&mut self, n: usize) {
        self.queued -= n;
        self.written += n as u64;
        let mut rest = n;
        while let Some(first) = self.queue.front_mut() {
            let gone = rest.min(first.data.len());
            self.shared -= if first.shared { gone } else { 0 };
            if gone < first.data.len() {
                bytes::Buf::advance(&mut first.data, gone);
                break;
            }
            rest -= gone;
            self.queue.pop_front();
            self.examined = self.examined.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const SLAB: usize = 1 << 20;

    /// The slices of one channel in a receive buffer that holds packets of `channels` channels in turn.
    fn received(packet: usize, channels: usize, mark: u8) -> Vec<Bytes> {
        let slab = Bytes::from(vec![mark; SLAB]);
        (0..SLAB / (packet + 30))
            .step_by(channels)
            .map(|at| slab.slice(at * (packet + 30)..at * (packet + 30) + packet))
            .collect()
    }

    fn stuck() -> (std::fs::File, Sink) {
        let (read, write) = lh_sys::fd::pipe().unwrap();
        let mut sink = Sink::new(LocalFd::owned(write).unwrap());
        for data in received(60_000, 1, 0).into_iter().chain(received(60_000, 1, 0)) {
            assert!(sink.push(data));
        }
        sink.flush();
        assert!(sink.waits_for().is_some(), "more than a pipe takes");
        (std::fs::File::from(read), sink)
    }

    /// Memory ranges of all waiting data.
    fn ranges(sink: &Sink) -> Vec<(usize, usize)> {
        let of = |data: &[u8]| (data.as_ptr().addr(), data.as_ptr().addr() + data.len());
        let queue = sink.queue.iter().map(|piece| of(&piece.data));
        let mut all: Vec<_> =
            queue.chain([of(&sink.tail)]).chain(sink.run.iter().map(|data| of(data))).collect();
        all.sort_unstable();
        all
    }

    /// Reads the rest of `sink` from the pipe, `step` bytes at a time, and checks that no data moves in
    /// memory meanwhile.
    fn drain(mut pipe: std::fs::File, mut sink: Sink, step: usize) -> u64 {
        let mut buffer = vec![0; step];
        let mut total = 0;
        while sink.queued() > 0 {
            let before = ranges(&sink);
            total += pipe.read(&mut buffer).unwrap() as u64;
            sink.flush();
            for (start, end) in ranges(&sink) {
                let at = before.partition_point(|&(from, _)| from <= start);
                let stayed = at.checked_sub(1).is_some_and(|at| end <= before[at].1);
                assert!(stayed || start == end, "waiting data was copied again");
            }
        }
        drop(sink);
        total + std::io::copy(&mut pipe, &mut std::io::sink()).unwrap()
    }

    #[test]
    fn full_buffers_are_kept_without_a_copy() {
        let (pipe, mut sink) = stuck();
        let mut slabs = Vec::new();
        for mark in 1..40 {
            let pieces = received(60_000, 1, mark);
            slabs.extend(pieces.iter().map(|data| (data.as_ptr().addr(), data.as_ptr().addr() + data.len())));
            assert!(pieces.into_iter().all(|data| sink.push(data)));
        }
        let all = sink.written() + sink.queued() as u64;
        assert_eq!(all, 41 * (SLAB / 60_030) as u64 * 60_000);
        let waiting = ranges(&sink);
        assert!(slabs.iter().all(|place| waiting.binary_search(place).is_ok()), "no copy was made");
        assert_eq!(drain(pipe, sink, 64 << 10), all);
    }

    #[test]
    fn slices_of_mixed_buffers_are_copied_once() {
        for (packet, channels) in [(60_000, 4), (200, 1), (200, 3)] {
            let (pipe, mut sink) = stuck();
            let slabs = if packet > 1000 { 40 } else { 5 };
            for mark in 1..slabs {
                for data in received(packet, channels, mark) {
                    assert!(sink.push(data));
                }
            }
            assert!(sink.shared <= SHARED_MAX);
            let by_reference: usize =
                sink.queue.iter().map(|piece| if piece.shared { piece.data.len() } else { 0 }).sum();
            assert_eq!(by_reference, sink.shared);
            let all = sink.written() + sink.queued() as u64;
            assert_eq!(drain(pipe, sink, 200_000), all, "{packet} of {channels}");
        }
    }

    #[test]
    fn queued_bytes_come_out_in_order() {
        let (mut pipe, mut sink) = stuck();
        let mut expected = vec![0; sink.written() as usize + sink.queued()];
        let mut got = Vec::new();
        let mut buffer = vec![0; 100_000];
        let mut next = 0_u32;
        for turn in 0..200 {
            for _ in 0..turn % 7 {
                next = next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let pieces = received(1 + next as usize % 70_000, 1 + next as usize % 3, turn);
                for data in pieces.into_iter().take(1 + next as usize % 40) {
                    expected.extend_from_slice(&data);
                    assert!(sink.push(data));
                }
            }
            let n = pipe.read(&mut buffer).unwrap();
            got.extend_from_slice(&buffer[..n]);
            sink.flush();
            if sink.queued() == 0 {
                break;
            }
        }
        while sink.queued() > 0 {
            let n = pipe.read(&mut buffer).unwrap();
            got.extend_from_slice(&buffer[..n]);
            sink.flush();
        }
        drop(sink);
        pipe.read_to_end(&mut got).unwrap();
        assert!(got == expected);
    }
}
