//! Detection of broken links by silence.

use std::time::{Duration, Instant};

/// Watches for silence on a link. The link counts as broken when an expected answer does not arrive within
/// the limit.
#[derive(Debug, Clone)]
pub struct Silence {
    limit: Duration,
    /// Time since which an answer is expected.
    expecting: Option<Instant>,
    asked: Option<Instant>,
}

impl Silence {
    /// Creates the watch. `limit` is the keepalive interval times its count.
    pub const fn new(limit: Duration) -> Self {
        Self { limit, expecting: None, asked: None }
    }

    /// Records that something was sent that the peer answers: a counted message or a keepalive.
    pub fn on_sent(&mut self, now: Instant) {
        self.expecting.get_or_insert(now);
    }

    /// Records that something was received.
    pub const fn on_received(&mut self) {
        self.expecting = None;
    }

    /// Returns true when the link counts as broken. Call it after reading the socket, at least once a second
    /// while an answer is expected. After a longer gap between calls this process was stopped or the machine
    /// was suspended, and the period starts again.
    pub fn is_broken(&mut self, now: Instant) -> bool {
        let stopped = self
            .asked
            .replace(now)
            .is_some_and(|asked| now.saturating_duration_since(asked) > Duration::from_secs(3));
        match &mut self.expecting {
            Some(since) if stopped => {
                *since = now;
                false
            }
            Some(since) => now.saturating_duration_since(*since) >= self.limit,
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_breaks_a_link_only_where_an_answer_is_due() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut silence = Silence::new(Duration::from_secs(45));
        assert!((0..1000).all(|s| !silence.is_broken(at(s))));
        silence.on_sent(at(1000));
        silence.on_sent(at(1040));
        assert!((1000..1045).all(|s| !silence.is_broken(at(s))));
        assert!(silence.is_broken(at(1045)));
        silence.on_received();
        assert!(!silence.is_broken(at(1046)));
    }

    #[test]
    fn a_process_that_was_stopped_waits_anew() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut silence = Silence::new(Duration::from_secs(45));
        silence.on_sent(at(0));
        assert!(!silence.is_broken(at(1)));
        assert!(!silence.is_broken(at(3600)));
        assert!((3601..3645).all(|s| !silence.is_broken(at(s))));
        assert!(silence.is_broken(at(3645)));
    }
}
