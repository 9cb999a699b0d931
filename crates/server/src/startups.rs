//! `MaxStartups`: limits the number of unauthenticated connections.

/// A `start:rate:full` value. From `start` unauthenticated connections on, each new one is dropped with a
/// probability that begins at `rate` percent and reaches 100 at `full`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MaxStartups {
    /// Below this number of connections none is dropped.
    pub(crate) start: usize,
    /// Probability of a drop at `start`, percent.
    pub(crate) rate: u32,
    /// From this number of connections on every new one is dropped.
    pub(crate) full: usize,
}

impl MaxStartups {
    /// Returns whether to drop one more connection while `waiting` are unauthenticated. `random` is uniformly
    /// distributed over all `u32` values.
    pub(crate) fn drops(&self, waiting: usize, random: u32) -> bool {
        if waiting < self.start {
            return false;
        }
        if waiting >= self.full || self.rate >= 100 {
            return true;
        }
        let span = (self.full - self.start).max(1) as u64;
        let percent =
            u64::from(100 - self.rate) * (waiting - self.start) as u64 / span + u64::from(self.rate);
        u64::from(random % 100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of 100 evenly spread random numbers drop a connection.
    fn percent(limit: MaxStartups, waiting: usize) -> usize {
        (0..100).filter(|&random| limit.drops(waiting, random)).count()
    }

    #[test]
    fn the_default_ramp() {
        let limit = MaxStartups { start: 10, rate: 30, full: 100 };
        assert_eq!(percent(limit, 9), 0);
        assert_eq!(percent(limit, 10), 30);
        assert_eq!(percent(limit, 55), 65);
        assert_eq!(percent(limit, 99), 99);
        assert_eq!(percent(limit, 100), 100);
    }

    #[test]
    fn a_single_number_is_a_wall() {
        let limit = MaxStartups { start: 2, rate: 100, full: 2 };
        assert_eq!(percent(limit, 1), 0);
        assert_eq!(percent(limit, 2), 100);
    }
}
