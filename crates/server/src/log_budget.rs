//! Rate limit for log lines about the requests on one connection.
//!
//! Refused channels, failed forwards and the like have a line each, as in OpenSSH. A client could fill a disk
//! by repeating them. Beyond a rate that no person or program needs, lines are counted instead of written.

use std::time::{Duration, Instant};

/// Number of lines of a connection that are written regardless of the rate.
const BURST: u32 = 100;

/// Time after which one more line may be written.
const PER_LINE: Duration = Duration::from_millis(500);

/// The remaining lines of one connection: a token bucket.
#[derive(Debug)]
pub(crate) struct LogBudget {
    left: u32,
    /// Time up to which new lines have been added to `left`; `None` before the first line.
    counted: Option<Instant>,
    left_out: u64,
}

impl Default for LogBudget {
    fn default() -> Self {
        Self { left: BURST, counted: None, left_out: 0 }
    }
}

impl LogBudget {
    /// Decides about a line. `Some`: write it; the value is the number of lines omitted since the last
    /// written one.
    pub(crate) fn spend(&mut self, now: Instant) -> Option<u64> {
        let since = self.counted.get_or_insert(now);
        let lines = now.saturating_duration_since(*since).as_millis() / PER_LINE.as_millis();
        let lines = u32::try_from(lines).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(lines).min(BURST);
        *since = if self.left == BURST { now } else { *since + PER_LINE.saturating_mul(lines) };
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
}
