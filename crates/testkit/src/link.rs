//! A virtual link between two ends, with latency, configurable pieces and a tap that may change the data.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::Seeded;

/// A clock that only advances when told to.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    now: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        let now = Instant::now();
        Self { start: now, now }
    }
}

impl Clock {
    /// Returns the current time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the time since the clock was created.
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// Advances the clock.
    pub fn advance(&mut self, by: Duration) {
        self.now += by;
    }

    /// Advances the clock to `then`, unless that has passed already.
    pub fn advance_to(&mut self, then: Instant) {
        self.now = self.now.max(then);
    }
}

/// Sizes of the pieces in which the bytes of a direction arrive.
#[derive(Debug, Clone)]
pub enum Chunking {
    /// All available bytes at once.
    Whole,
    /// At most this many bytes at a time; 1 tries every boundary.
    AtMost(usize),
    /// Pieces of random size from 1 to this many bytes.
    Random(Seeded, usize),
}

/// Inspects, and may change, shorten or lengthen, the bytes sent. The first argument is the number of bytes
/// sent before.
pub type Tap = Box<dyn FnMut(u64, &mut Vec<u8>)>;

/// One direction of a link.
pub struct Pipe {
    latency: Duration,
    chunking: Chunking,
    tap: Option<Tap>,
    in_flight: VecDeque<(Instant, Vec<u8>)>,
    /// Bytes of the front piece that were taken.
    taken: usize,
    sent: u64,
    cut_at: Option<u64>,
    closed: bool,
}

impl Pipe {
    /// Creates a direction with this one-way latency.
    pub const fn new(latency: Duration, chunking: Chunking) -> Self {
        Self {
            latency,
            chunking,
            tap: None,
            in_flight: VecDeque::new(),
            taken: 0,
            sent: 0,
            cut_at: None,
            closed: false,
        }
    }

    /// Installs a tap.
    pub fn set_tap(&mut self, tap: impl FnMut(u64, &mut Vec<u8>) + 'static) {
        self.tap = Some(Box::new(tap));
    }

    /// Drops everything after this many bytes, and ends the stream there.
    pub const fn cut_at(&mut self, bytes: u64) {
        self.cut_at = Some(bytes);
    }

    /// Sends bytes.
    pub fn push(&mut self, now: Instant, bytes: &[u8]) {
        if self.closed || bytes.is_empty() {
            return;
        }
        let mut bytes = bytes.to_vec();
        if let Some(tap) = &mut self.tap {
            tap(self.sent, &mut bytes);
        }
        if let Some(cut) = self.cut_at {
            let left = usize::try_from(cut.saturating_sub(self.sent)).unwrap_or(usize::MAX);
            if bytes.len() >= left {
                bytes.truncate(left);
                self.closed = true;
            }
        }
        self.sent += bytes.len() as u64;
        self.in_flight.push_back((now + self.latency, bytes));
    }

    /// Ends the stream.
    pub const fn close(&mut self) {
        self.closed = true;
    }

    /// Returns true when everything has arrived and the stream has ended.
    pub fn at_eof(&self) -> bool {
        self.closed && self.in_flight.is_empty()
    }

    /// Receives available bytes into `space`, as one `recv` would; returns their number.
    pub fn pop(&mut self, now: Instant, space: &mut [u8]) -> usize {
        let want = match &mut self.chunking {
            Chunking::Whole => space.len(),
            Chunking::AtMost(n) => space.len().min(*n),
            Chunking::Random(random, n) => space.len().min(1 + random.below(*n)),
        };
        let mut got = 0;
        while got < want {
            let Some((arrival, bytes)) = self.in_flight.front() else { break };
            if *arrival > now {
                break;
            }
            let part = (bytes.len() - self.taken).min(want - got);
            space[got..got + part].copy_from_slice(&bytes[self.taken..self.taken + part]);
            got += part;
            self.taken += part;
            if self.taken == bytes.len() {
                self.in_flight.pop_front();
                self.taken = 0;
            }
        }
        got
    }

    /// Returns the arrival time of the next bytes, if any are in flight.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.front().map(|(arrival, _)| *arrival)
    }

    /// Returns the number of bytes sent so far.
    pub const fn sent(&self) -> u64 {
        self.sent
    }
}

/// Both directions between a client and a server.
pub struct Link {
    /// Client to server.
    pub up: Pipe,
    /// Server to client.
    pub down: Pipe,
}

impl Link {
    /// Creates a link with this one-way latency and these pieces.
    pub fn new(latency: Duration, chunking: Chunking) -> Self {
        Self { up: Pipe::new(latency, chunking.clone()), down: Pipe::new(latency, chunking) }
    }

    /// Creates a link without latency that delivers all bytes at once.
    pub fn direct() -> Self {
        Self::new(Duration::ZERO, Chunking::Whole)
    }

    /// Returns the arrival time of the next bytes at either end.
    pub fn next_arrival(&self) -> Option<Instant> {
        [self.up.next_arrival(), self.down.next_arrival()].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_late_and_in_pieces() {
        let mut clock = Clock::default();
        let mut pipe = Pipe::new(Duration::from_millis(100), Chunking::AtMost(2));
        pipe.push(clock.now(), b"abc");
        let mut space = [0; 10];
        assert_eq!(pipe.pop(clock.now(), &mut space), 0);
        clock.advance_to(pipe.next_arrival().unwrap());
        assert_eq!(clock.elapsed(), Duration::from_millis(100));
        assert_eq!(pipe.pop(clock.now(), &mut space), 2);
        assert_eq!(pipe.pop(clock.now(), &mut space), 1);
        assert_eq!(pipe.pop(clock.now(), &mut space), 0);
    }

    #[test]
    fn tap_changes_bytes_and_cut_ends_the_stream() {
        let clock = Clock::default();
        let mut pipe = Pipe::new(Duration::ZERO, Chunking::Whole);
        pipe.set_tap(|before, bytes| bytes[0] += before as u8);
        pipe.cut_at(3);
        pipe.push(clock.now(), &[1, 1]);
        pipe.push(clock.now(), &[1, 1]);
        pipe.push(clock.now(), &[9]);
        let mut space = [0; 10];
        assert_eq!(pipe.pop(clock.now(), &mut space), 3);
        assert_eq!(space[..3], [1, 1, 3]);
        assert!(pipe.at_eof());
    }
}
