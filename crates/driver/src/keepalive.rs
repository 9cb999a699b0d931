//! Asking a silent peer whether it is still there (ServerAliveInterval, ClientAliveInterval).

use std::time::{Duration, Instant};

/// The request both sides of OpenSSH use.
pub(crate) const KEEPALIVE_REQUEST: &str = "keepalive@openssh.com";

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepaliveAction {
    /// Nothing yet.
    Wait,
    /// Ask the peer for an answer.
    Ask,
    /// The peer has not said anything after the allowed number of questions.
    Dead,
}

/// Counts questions that nothing answered. Any packet of the peer counts as an answer.
#[derive(Debug, Clone)]
pub struct Keepalive {
    interval: Duration,
    count_max: u32,
    unanswered: u32,
    due: Instant,
}

impl Keepalive {
    /// Asks after every `interval` of silence; `count_max` unanswered questions are borne, and one more
    /// interval after the last of them the peer is dead. A `count_max` of 0 never ends the connection.
    pub fn new(interval: Duration, count_max: u32, now: Instant) -> Self {
        Self { interval, count_max, unanswered: 0, due: now + interval }
    }

    /// The peer sent a packet.
    pub fn on_traffic(&mut self, now: Instant) {
        self.unanswered = 0;
        self.due = now + self.interval;
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called.
    pub const fn next_deadline(&self) -> Instant {
        self.due
    }

    /// Time has passed.
    pub fn on_timeout(&mut self, now: Instant) -> KeepaliveAction {
        if now < self.due {
            return KeepaliveAction::Wait;
        }
        self.due = now + self.interval;
        self.unanswered = self.unanswered.saturating_add(1);
        if self.count_max > 0 && self.unanswered > self.count_max {
            return KeepaliveAction::Dead;
        }
        KeepaliveAction::Ask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_counted_until_something_comes() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut keepalive = Keepalive::new(Duration::from_secs(10), 2, start);
        assert_eq!(keepalive.on_timeout(at(9)), KeepaliveAction::Wait);
        assert_eq!(keepalive.on_timeout(at(10)), KeepaliveAction::Ask);
        assert_eq!(keepalive.next_deadline(), at(20));
        keepalive.on_traffic(at(11));
        for time in [21, 31] {
            assert_eq!(keepalive.on_timeout(at(time)), KeepaliveAction::Ask);
        }
        assert_eq!(keepalive.on_timeout(at(41)), KeepaliveAction::Dead);
    }

    #[test]
    fn without_a_limit_it_asks_for_ever() {
        let start = Instant::now();
        let mut keepalive = Keepalive::new(Duration::from_secs(1), 0, start);
        for second in 1..1000 {
            assert_eq!(keepalive.on_timeout(start + Duration::from_secs(second)), KeepaliveAction::Ask);
        }
    }
}
