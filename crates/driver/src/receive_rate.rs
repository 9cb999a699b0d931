//! Rate limit of what a connection receives, once it is logged in (`ReceiveRate` of the server).
//!
//! While the connection is ahead of its rate, its socket is not read: TCP makes the peer wait. The windows of
//! channels are no limit, because each new channel brings another one.

use std::time::{Duration, Instant};

/// Time for which a connection that received nothing may exceed the rate afterwards.
const BURST: Duration = Duration::from_millis(100);

/// A rate, and the time that it takes for what was received so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveRate {
    per_second: u64,
    /// From this time on, the connection is no longer ahead of its rate.
    reads_from: Instant,
}

impl ReceiveRate {
    /// A limit of `per_second` bytes a second; 0 counts as 1.
    pub(crate) fn new(per_second: u64, now: Instant) -> Self {
        Self { per_second: per_second.max(1), reads_from: now }
    }

    /// Counts `bytes` received at `now`. Returns the time until which to receive no more.
    pub(crate) fn received(&mut self, bytes: usize, now: Instant) -> Option<Instant> {
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let micros = (bytes as u128 * 1_000_000 / u128::from(self.per_second)).min(u128::from(u32::MAX));
        self.reads_from = self.reads_from.max(earliest) + Duration::from_micros(micros as u64);
        (self.reads_from > now).then_some(self.reads_from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_rate_waits() {
        let start = Instant::now();
        let mut rate = ReceiveRate::new(1000, start);
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(rate.received(500, start), Some(after(500)), "a new connection has no burst");
        assert_eq!(rate.received(100, after(500)), Some(after(600)));
        assert_eq!(rate.received(50, after(650)), None, "as slow as the rate");
        assert_eq!(rate.received(100, after(5000)), None, "a burst after silence");
        assert_eq!(rate.received(100, after(5000)), Some(after(5100)), "no second burst");
        assert!(ReceiveRate::new(0, start).received(1, start) > Some(after(999)), "a rate of 0 is 1 byte/s");
    }
}
