//! Rate limit for log lines about the requests on one connection.
//!
//! Refused channels, failed forwards and the like have a line each, as in OpenSSH. A client could fill a disk
//! by repeating them. Beyond a rate that no person or program needs, lines are counted instead of written.
//! `TransferLogRate` limits the records of a connection in the same way.

use std::time::{Duration, Instant};

/// Number of lines of a connection that are written regardless of the rate.
const BURST: u64 = 100;

/// Time after which one more line may be written.
const PER_LINE: Duration = Duration::from_millis(500);

/// The remaining lines of one connection: a token bucket.
#[derive(Debug)]
pub(crate) struct LogBudget {
    /// Number of lines that are written regardless of the rate.
    burst: u64,
    /// Time after which one more line may be written.
    per_line: Duration,
    left: u64,
    /// Time up to which new lines have been added to `left`; `None` before the first line.
    counted: Option<Instant>,
    left_out: u64,
}

impl Default for LogBudget {
    fn default() -> Self {
        Self::new(BURST, PER_LINE)
    }
}

impl LogBudget {
    /// Permits `burst` lines at once, and one more after each `per_line`.
    pub(crate) fn new(burst: u64, per_line: Duration) -> Self {
        Self {
            burst,
            per_line: per_line.max(Duration::from_nanos(1)),
            left: burst,
            counted: None,
            left_out: 0,
        }
    }

    /// Decides about a line. `Some`: write it; the value is the number of lines omitted since the last
    /// written one.
    pub(crate) fn spend(&mut self, now: Instant) -> Option<u64> {
        let since = self.counted.get_or_insert(now);
        let per_line = self.per_line.as_nanos();
        let waited = now.saturating_duration_since(*since).as_nanos();
        let lines = u64::try_from(waited / per_line).unwrap_or(u64::MAX);
        self.left = self.left.saturating_add(lines).min(self.burst);
        // What is left of an interval counts for the next line.
        let rest = Duration::from_nanos(u64::try_from(waited % per_line).unwrap_or(u64::MAX));
        *since = if self.left == self.burst { now } else { now.checked_sub(rest).unwrap_or(now) };
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Some(self.take_left_out())
            }
            None => {
                self.left_out += 1;
                None
            }
        }
    }

    /// Returns and resets the number of lines omitted since the last written one.
    pub(crate) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_rate_are_counted() {
        let (mut budget, start) = (LogBudget::default(), Instant::now());
        assert!((0..BURST).all(|_| budget.spend(start) == Some(0)));
        assert!((0..7).all(|_| budget.spend(start + PER_LINE / 2).is_none()));
        assert_eq!(budget.spend(start + PER_LINE), Some(7));
        assert_eq!(budget.spend(start + PER_LINE), None);
        assert_eq!(budget.spend(start + PER_LINE + PER_LINE / 2), None);
        assert_eq!(budget.spend(start + 2 * PER_LINE), Some(2));
        assert_eq!(budget.take_left_out(), 0);
    }

    #[test]
    fn a_quiet_connection_gets_its_burst_back_and_no_more() {
        let (mut budget, start) = (LogBudget::default(), Instant::now());
        while budget.spend(start).is_some() {}
        let later = start + Duration::from_secs(86_400);
        assert_eq!(budget.spend(later), Some(1));
        assert_eq!((0..2 * BURST).filter(|_| budget.spend(later).is_some()).count(), BURST as usize - 1);
    }

    #[test]
    fn a_rate_of_many_lines_a_second_is_kept() {
        let (per_line, start) = (Duration::from_micros(10), Instant::now());
        let mut budget = LogBudget::new(3, per_line);
        let written = (0..10_000).filter(|step| budget.spend(start + per_line / 4 * *step).is_some()).count();
        assert_eq!(written, 3 + 9_999 / 4);
    }
}
