//! The rate of signatures by host keys after the login: each key exchange takes one, and nothing else takes many.
//!
//! A session process that has been taken over could otherwise use the host keys as fast as the machine can sign.

use std::time::Instant;

use super::stage::Unexpected;

/// Signatures in reserve.
const RESERVE: u32 = 2048;
/// Signatures a second that any session may have for good: a limit of 8 MiB at 500 MB/s.
const LEAST_RATE: u32 = 64;
/// Bytes a second that no connection exceeds. A `RekeyLimit` of the server's makes that many key exchanges possible.
const FASTEST: u64 = 4 << 30;

/// A token bucket.
#[derive(Debug)]
pub(super) struct SigningRate {
    rate: u32,
    left: f64,
    since: Instant,
}

impl SigningRate {
    /// `rekey_bytes` is the server's own limit, where it has one.
    pub(super) fn new(rekey_bytes: Option<u64>, now: Instant) -> Self {
        let own = rekey_bytes.map_or(0, |bytes| FASTEST / bytes.max(1));
        let rate = u32::try_from(own).unwrap_or(u32::MAX).max(LEAST_RATE);
        Self { rate, left: RESERVE.into(), since: now }
    }

    /// Takes one.
    ///
    /// # Errors
    /// There were too many of late.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Unexpected> {
        let grown = now.saturating_duration_since(self.since).as_secs_f64() * f64::from(self.rate);
        self.since = now;
        self.left = (self.left + grown).min(RESERVE.into());
        if self.left < 1.0 {
            return Err(Unexpected::SigningRate(RESERVE, self.rate));
        }
        self.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_flood_of_signatures_ends_and_rekeying_does_not() {
        let start = Instant::now();
        let mut rate = SigningRate::new(None, start);
        for _ in 0..RESERVE {
            assert_eq!(rate.take(start), Ok(()));
        }
        assert_eq!(rate.take(start), Err(Unexpected::SigningRate(RESERVE, LEAST_RATE)));
        // As fast as the rate, for an hour.
        for second in 1..3600 {
            let now = start + Duration::from_secs(second);
            assert!((0..LEAST_RATE).all(|_| rate.take(now).is_ok()));
            assert!(rate.take(now).is_err());
        }
    }

    #[test]
    fn a_small_limit_of_the_servers_own_counts() {
        let start = Instant::now();
        let mut rate = SigningRate::new(Some(1 << 20), start);
        for tenth in 1..600 {
            let now = start + Duration::from_millis(100 * tenth);
            assert!((0..400).all(|_| rate.take(now).is_ok()));
        }
    }
}
