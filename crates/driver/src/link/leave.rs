//! The end of a link whose peer would keep the session for another one.

use std::time::{Duration, Instant};

use lh_sys::signals;
use rustix::process::Signal;

use super::Link;

/// Time between checks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Longest wait on a link that carries nothing any more, where this end cannot see that all has arrived:
/// pipes to a ProxyCommand, and connections through a thread of this process.
const QUIET_BOUND: Duration = Duration::from_millis(500);

/// Signals that end the wait. Not SIGHUP: a terminal that is closed sends it twice, itself and by the shell.
const ENDING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::QUIT];

impl Link {
    /// Like [`disconnect`](Self::disconnect), for a peer that would keep the session for another link if it
    /// did not get the message: waits until the peer has closed the connection, and drops what it still
    /// sends. A socket that is closed with unread data resets the connection, which destroys what is on its
    /// way to the peer. A signal that this thread blocks ends the wait, as does an error.
    ///
    /// On a TCP connection with hardly anything in flight the kernel delivers the message after the close as
    /// well, so that this does not wait, unless the peer `may_send` still.
    pub fn leave(&mut self, reason: u32, text: &str, may_send: bool, bound: Duration) {
        self.stop_workers();
        if self.lost {
            return;
        }
        // Behind a quiet link only the peer's close is waited for, which some proxies do not pass on.
        let bound = if may_send { bound } else { bound.min(QUIET_BOUND) };
        let deadline = Instant::now() + bound;
        let was_quiet = !may_send && self.transport.queued_bytes() == 0 && self.stream.delivers_by_itself();
        self.transport.disconnect(reason, text);
        let mut told = false;
        loop {
            let now = Instant::now();
            if !told && self.flush(now).is_err() || self.write_failed.is_some() {
                return;
            }
            let ended = self.stream.discard();
            if !told && self.transport.queued_bytes() == 0 {
                if was_quiet {
                    return;
                }
                self.stream.end_writing();
                told = true;
            }
            let left = deadline.saturating_duration_since(now);
            if ended || left.is_zero() || signals::are_pending(&ENDING) {
                return;
            }
            self.stream.wait_either(!told, left.min(LOOK));
        }
    }
}
