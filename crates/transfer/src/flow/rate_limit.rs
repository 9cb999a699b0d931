//! `-l`: a token bucket over file bytes.

use std::time::{Duration, Instant};

/// Largest burst after a pause, as time at the full rate.
const BURST: Duration = Duration::from_millis(100);

/// Lets a number of bytes per second pass on average. May run into debt by one request: a request is sent
/// whole.
#[derive(Debug)]
pub(crate) struct Limiter {
    bytes_per_second: f64,
    tokens: f64,
    refilled: Instant,
}

impl Limiter {
    pub(crate) fn new(bits_per_second: u64, now: Instant) -> Self {
        Self { bytes_per_second: (bits_per_second as f64 / 8.0).max(1.0), tokens: 1.0, refilled: now }
    }

    /// Requests should not be larger than this, or the flow becomes a row of bursts: a quarter of a second.
    pub(crate) fn request_bytes(&self) -> u32 {
        ((self.bytes_per_second / 4.0) as u32).max(1024)
    }

    /// `None` when a request may go now, else when to ask again.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Instant> {
        let passed = now.saturating_duration_since(self.refilled).as_secs_f64();
        self.refilled = self.refilled.max(now);
        let most = (self.bytes_per_second * BURST.as_secs_f64()).max(1.0);
        self.tokens = (self.tokens + passed * self.bytes_per_second).min(most);
        if self.tokens > 0.0 {
            return None;
        }
        // A microsecond more than needed: rounding must not make the caller come too early for ever.
        let wait = -self.tokens / self.bytes_per_second + 1e-6;
        Some(now + Duration::try_from_secs_f64(wait).unwrap_or(Duration::from_secs(3600)))
    }

    pub(crate) fn spend(&mut self, bytes: u64) {
        self.tokens -= bytes as f64;
    }
}

/// The rate limit of a copy, if it has one, and whether it holds requests back.
#[derive(Debug)]
pub(crate) struct RateLimit {
    limiter: Option<Limiter>,
    /// When the rate lets the next request pass.
    wait_until: Option<Instant>,
}

impl RateLimit {
    pub(crate) fn new(bits_per_second: Option<u64>, now: Instant) -> Self {
        Self { limiter: bits_per_second.map(|rate| Limiter::new(rate, now)), wait_until: None }
    }

    /// Returns true when there is a limit.
    pub(crate) const fn is_set(&self) -> bool {
        self.limiter.is_some()
    }

    /// Returns true when a request may pass now; else notes when one may.
    pub(crate) fn lets_pass(&mut self, now: Instant) -> bool {
        let Some(limiter) = &mut self.limiter else { return true };
        self.wait_until = limiter.wait(now);
        self.wait_until.is_none()
    }

    /// Counts the bytes of a request.
    pub(crate) fn spend(&mut self, bytes: u64) {
        if let Some(limiter) = &mut self.limiter {
            limiter.spend(bytes);
        }
    }

    /// Bytes of a request at most, so that the rate is kept evenly.
    pub(crate) fn request_bytes(&self) -> u32 {
        self.limiter.as_ref().map_or(u32::MAX, Limiter::request_bytes)
    }

    /// Returns true while requests are held back.
    pub(crate) const fn holds_back(&self) -> bool {
        self.wait_until.is_some()
    }

    /// The time has come to ask again.
    pub(crate) const fn try_again(&mut self) {
        self.wait_until = None;
    }

    /// When a request may pass, while they are held back.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.wait_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_rate_is_kept_whatever_the_request_size() {
        for request in [1_000_u64, 32_768, 261_120] {
            let start = Instant::now();
            let mut now = start;
            let mut limiter = Limiter::new(8_000_000, now);
            let mut sent = 0;
            while sent < 10_000_000 {
                match limiter.wait(now) {
                    None => {
                        limiter.spend(request);
                        sent += request;
                    }
                    Some(at) => {
                        assert!(at > now);
                        now = at;
                    }
                }
            }
            let seconds = (now - start).as_secs_f64();
            assert!((9.5..=10.1).contains(&seconds), "{request}: {seconds} s");
        }
    }
}
