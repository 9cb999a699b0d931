//! Rate limit of what a connection receives: before the login, and after it with `ReceiveRate` of the server.
//!
//! Every received byte costs CPU time: decryption, and answers or signatures. While the connection is ahead
//! of its rate, its socket is not read: TCP makes the peer wait. The windows of channels are no limit,
//! because each new channel brings another one.

use std::time::{Duration, Instant};

/// Smallest read that is worth a system call, bytes.
const LEAST_READ: usize = 4 << 10;

/// A rate with a burst. A connection that has received nothing for long may receive the burst at once and no
/// more: time without input does not add up.
#[derive(Debug, Clone, Copy)]
pub struct InputLimit {
    per_second: u64,
    most_at_once: usize,
    /// Time that the burst takes at the rate.
    burst: Duration,
    /// Time at which the received bytes would have arrived at the rate.
    on_time: Instant,
}

impl InputLimit {
    /// A limit of `per_second` bytes a second after a burst of `burst` bytes. A rate of 0 counts as 1.
    pub fn new(per_second: u64, burst: u64, now: Instant) -> Self {
        let per_second = per_second.max(1);
        let most_at_once = usize::try_from(burst).unwrap_or(usize::MAX).max(LEAST_READ);
        Self { per_second, most_at_once, burst: duration(burst, per_second), on_time: now }
    }

    /// Bytes to read in one system call. A read of a megabyte stopped a connection of 2 Mbit/s for four
    /// seconds, in which it answered nothing, and its client took the path for broken.
    pub(crate) const fn most_at_once(&self) -> usize {
        self.most_at_once
    }

    /// Bytes that the rate lets through in this time.
    pub(crate) fn bytes_in(&self, time: Duration) -> u64 {
        u64::try_from(u128::from(self.per_second) * time.as_millis() / 1000).unwrap_or(u64::MAX)
    }

    /// Counts `bytes` received at `now`. Returns the time until which to receive no more.
    pub(crate) fn received(&mut self, bytes: usize, now: Instant) -> Option<Instant> {
        self.on_time = self.on_time.max(now) + duration(bytes as u64, self.per_second);
        self.on_time.checked_sub(self.burst).filter(|reads_from| *reads_from > now)
    }
}

/// Returns the time that bytes take at a rate.
fn duration(bytes: u64, per_second: u64) -> Duration {
    // A century: the sum of longer ones would overflow.
    const LONGEST: u128 = 100 * 365 * 86_400 * 1_000_000;
    let micros = (u128::from(bytes) * 1_000_000 / u128::from(per_second)).min(LONGEST);
    Duration::from_micros(micros as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_beyond_the_burst_waits() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut limit = InputLimit::new(1000, 100, start);
        assert_eq!(limit.received(100, start), None, "the burst");
        assert_eq!(limit.received(500, start), Some(after(500)));
        assert_eq!(limit.received(100, after(500)), Some(after(600)), "no second burst");
        assert_eq!(limit.received(50, after(650)), None, "as slow as the rate");
        assert!(
            InputLimit::new(0, 0, start).received(1, start) > Some(after(999)),
            "a rate of 0 is 1 byte/s"
        );
    }

    #[test]
    fn one_read_is_no_longer_than_the_burst() {
        let of = |burst| InputLimit::new(250_000, burst, Instant::now()).most_at_once();
        assert_eq!((of(25_000), of(0)), (25_000, LEAST_READ));
    }

    #[test]
    fn time_without_input_adds_one_burst_only() {
        let start = Instant::now();
        let later = start + Duration::from_secs(600);
        let mut limit = InputLimit::new(1000, 2000, start);
        assert_eq!(limit.received(2000, later), None, "a burst");
        assert_eq!(
            limit.received(1000, later),
            Some(later + Duration::from_secs(1)),
            "not ten minutes of input"
        );
    }
}
