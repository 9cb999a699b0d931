//! Peak rate.

use std::time::{Duration, Instant};

/// Highest rate that was sustained for a second. A burst into a buffer does not count.
#[derive(Debug, Clone)]
pub struct Peak {
    since: Instant,
    bytes: u64,
    highest: u64,
}

impl Peak {
    /// Interval over which rates are measured.
    pub const INTERVAL: Duration = Duration::from_secs(1);

    /// Starts at `now`; `bytes` were moved before.
    pub const fn new(bytes: u64, now: Instant) -> Self {
        Self { since: now, bytes, highest: 0 }
    }

    /// Reports the total number of bytes moved. Cheap: may be called for every packet.
    pub fn update(&mut self, bytes: u64, now: Instant) {
        let time = now.saturating_duration_since(self.since);
        if time >= Self::INTERVAL {
            self.highest = self.highest.max(rate(bytes.saturating_sub(self.bytes), time));
            self.since = now;
            self.bytes = bytes;
        }
    }

    /// Highest rate, bytes per second; `average` if no full second was measured.
    pub const fn highest(&self, average: u64) -> u64 {
        if self.highest > average { self.highest } else { average }
    }
}

/// Bytes per second; a time of 0 counts as a nanosecond.
pub fn rate(bytes: u64, time: Duration) -> u64 {
    let nanos = time.as_nanos().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_full_seconds_count_for_the_peak() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut peak = Peak::new(100, start);
        peak.update(1_000_100, at(10));
        assert_eq!(peak.highest(7), 7);
        peak.update(1_000_100, at(2000));
        peak.update(3_000_100, at(3000));
        peak.update(3_000_200, at(9000));
        assert_eq!(peak.highest(7), 2_000_000);
        assert_eq!(rate(u64::MAX, Duration::ZERO), u64::MAX);
    }
}
