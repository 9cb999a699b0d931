//! When a link that is silent counts as broken.

use std::time::{Duration, Instant};

/// Silence on a link: it counts as broken when something was expected and nothing came for too long.
#[derive(Debug, Clone)]
pub struct Silence {
    limit: Duration,
    /// Time since which something is expected.
    expecting: Option<Instant>,
    asked: Option<Instant>,
}

impl Silence {
    /// `limit` is the keepalive interval times its count.
    pub const fn new(limit: Duration) -> Self {
        Self { limit, expecting: None, asked: None }
    }

    /// Something was sent that the peer answers: a counted message, a keepalive.
    pub fn on_sent(&mut self, now: Instant) {
        self.expecting.get_or_insert(now);
    }

    /// Something came.
    pub const fn on_received(&mut self) {
        self.expecting = None;
    }

    /// Returns true when the link counts as broken. Call it when the socket has been read, at least each second
    /// while something is expected: after a longer time this process itself was stopped, or the machine
    /// slept, and the period starts again.
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
