//! Keepalive requests to a silent peer (ServerAliveInterval, ClientAliveInterval).

use std::time::{Duration, Instant};

/// The request that both sides of OpenSSH use.
pub(crate) const KEEPALIVE_REQUEST: &str = "keepalive@openssh.com";

/// Decision of [`Keepalive::on_timeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepaliveAction {
    /// Nothing to do yet.
    Wait,
    /// Send a request.
    Ask,
    /// The peer sent no packet after the allowed number of requests.
    Dead,
}

/// Counts unanswered requests. Any packet from the peer counts as an answer.
#[derive(Debug, Clone)]
pub struct Keepalive {
    interval: Duration,
    count_max: u32,
    unanswered: u32,
    due: Instant,
}

impl Keepalive {
    /// Sends a request after every `interval` of silence. The peer is dead one interval after `count_max`
    /// unanswered requests. A `count_max` of 0 never ends the connection.
    pub fn new(interval: Duration, count_max: u32, now: Instant) -> Self {
        Self { interval, count_max, unanswered: 0, due: now + interval }
    }

    /// Reports a packet from the peer.
    pub fn on_traffic(&mut self, now: Instant) {
        self.unanswered = 0;
        self.due = now + self.interval;
    }

    /// Time at which to call [`on_timeout`](Self::on_timeout).
    pub const fn next_deadline(&self) -> Instant {
        self.due
    }

    /// Decides what to do at `now`.
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
    fn any_packet_resets_the_count() {
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
    fn count_max_zero_never_gives_up() {
        let start = Instant::now();
        let mut keepalive = Keepalive::new(Duration::from_secs(1), 0, start);
        for second in 1..1000 {
            assert_eq!(keepalive.on_timeout(start + Duration::from_secs(second)), KeepaliveAction::Ask);
        }
    }
}
