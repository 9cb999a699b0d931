//! Rate limit of a connection's input, for the time before a login.
//!
//! Every received byte costs CPU time: decryption, and answers or signatures. A client that logs in sends
//! some kilobytes; a client that sends without end would use as much of a core as it can. While a connection
//! is ahead of the limit, its socket is not read, and the process sleeps.

use std::time::{Duration, Instant};

/// Limit of received bytes: an initial amount, and then a number per second.
#[derive(Debug, Clone, Copy)]
pub struct InputLimit {
    start: Instant,
    at_once: u64,
    per_second: u32,
}

impl InputLimit {
    /// A limit that counts from now.
    pub fn new(at_once: u64, per_second: u32) -> Self {
        Self { start: Instant::now(), at_once, per_second: per_second.max(1) }
    }

    /// Returns the earliest time at which a connection that has received `bytes` may receive more.
    pub(crate) fn reads_from(&self, bytes: u64) -> Instant {
        let beyond = bytes.saturating_sub(self.at_once);
        // A resolution of milliseconds suffices. The sum overflows only after years, and no login takes that
        // long.
        let wait = Duration::from_millis(beyond.saturating_mul(1000) / u64::from(self.per_second));
        self.start.checked_add(wait).unwrap_or(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_beyond_the_burst_waits() {
        let limit = InputLimit::new(1000, 100);
        for (bytes, millis) in [(0, 0), (1000, 0), (1001, 10), (1100, 1000), (2000, 10_000)] {
            assert_eq!(limit.reads_from(bytes), limit.start + Duration::from_millis(millis), "{bytes}");
        }
        assert!(InputLimit::new(0, 0).reads_from(1) > limit.start, "a rate of 0 is 1 byte/s");
    }
}
