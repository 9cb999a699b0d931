//! The path of a connection that has joined a session by a ticket. Such a connection is not resumed, and its
//! client gives it up without a word when the path is lost: TCP alone would keep it for two hours.
//!
//! Its client is asked after silence, so that its TCP has something to acknowledge. The connection ends when
//! that TCP has sent nothing for [`LIMIT`]. A client that is stopped (^Z) keeps the connection: its kernel
//! acknowledges for it.

use std::time::{Duration, Instant};

use lh_driver::ControlCx;
use lh_sys::tcp_info::TcpInfo;

/// Silence after which the client is asked, and time between two checks.
pub(super) const INTERVAL: Duration = Duration::from_secs(30);

/// Longest silence of the client's TCP. Longer than Linux waits between two probes of a closed window or two
/// retransmissions (120 s), plus one check.
const LIMIT: Duration = Duration::from_secs(180);

/// Checks the path at times.
pub(super) struct JoinedPath {
    checked: Instant,
}

impl JoinedPath {
    pub(super) const fn new(now: Instant) -> Self {
        Self { checked: now }
    }

    /// Returns true if the path is lost. `silence`: time since the client's TCP has sent anything; `None`
    /// where the kernel does not tell. Call it at least once in [`INTERVAL`]; the keepalives wake the loop.
    fn is_lost(&mut self, now: Instant, silence: impl FnOnce() -> Option<Duration>) -> bool {
        let since = now.saturating_duration_since(self.checked);
        if since < INTERVAL {
            return false;
        }
        self.checked = now;
        // After a pause of this process the client has not been asked: it gets time to answer.
        since < INTERVAL * 2 && silence().is_some_and(|silence| silence >= LIMIT)
    }

    /// Returns true if the path of the connection is lost.
    pub(super) fn check(&mut self, cx: &ControlCx<'_>) -> bool {
        self.is_lost(cx.now(), || cx.tcp_info().and_then(|info| silence(&info)))
    }
}

/// Time since the last segment of the peer. Linux counts an acknowledgement behind which nothing new is
/// acknowledged as data alone.
fn silence(info: &TcpInfo) -> Option<Duration> {
    let milliseconds = info.get("last_ack_recv")?.min(info.get("last_data_recv")?);
    Some(Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the second at which the path counts as lost, of a loop that turns every `turn` seconds and
    /// whose client's TCP was last heard at `heard` by a clock in seconds.
    fn lost_at(turn: u64, heard: impl Fn(u64) -> u64) -> Option<u64> {
        let start = Instant::now();
        let mut path = JoinedPath::new(start);
        (1..1000).map(|turns| turns * turn).find(|second| {
            let silence = Duration::from_secs(second - heard(*second));
            path.is_lost(start + Duration::from_secs(*second), || Some(silence))
        })
    }

    #[test]
    fn a_joined_connection_ends_when_its_path_is_lost() {
        assert_eq!(lost_at(1, |_| 0), Some(180));
        assert_eq!(lost_at(1, |second| second.min(100)), Some(300));
        assert_eq!(lost_at(30, |second| second.min(100)), Some(300));
    }

    #[test]
    fn a_joined_connection_stays_while_its_clients_tcp_answers() {
        assert_eq!(lost_at(1, |second| second), None);
        // The answers to questions, and to probes of a closed window.
        assert_eq!(lost_at(1, |second| second / 30 * 30), None);
        assert_eq!(lost_at(1, |second| second / 120 * 120), None);
    }

    #[test]
    fn a_pause_of_the_server_is_no_silence_of_the_client() {
        let start = Instant::now();
        let mut path = JoinedPath::new(start);
        let silent = |at: u64, path: &mut JoinedPath| {
            path.is_lost(start + Duration::from_secs(at), || Some(Duration::from_secs(at)))
        };
        assert!(!silent(3600, &mut path));
        assert!(!silent(3601, &mut path));
        assert!(silent(3630, &mut path));
    }

    #[test]
    fn without_the_kernels_word_nothing_ends() {
        let start = Instant::now();
        assert!(!JoinedPath::new(start).is_lost(start + INTERVAL, || None));
    }
}
