//! The end of a link whose peer would keep the session for another one.

use std::time::{Duration, Instant};

use lh_sys::signals;
use rustix::process::Signal;

use super::Link;

/// Time between checks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Signals that end a wait of a client that leaves. Not SIGHUP: a terminal that is closed sends it twice,
/// itself and by the shell.
pub const LEAVE_ENDINGS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::QUIT];

/// How far the message has come with which this end leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// It has arrived: the peer has closed the connection, or the kernel delivers it by itself. Where a
    /// command or a jump host is in between, these may have closed the connection themselves.
    Arrived,
    /// It is on its way, or waits for space.
    UnderWay,
    /// The connection broke before the peer closed it.
    Broken,
}

/// The end of a link in progress ([`Link::begin_leaving`]).
#[derive(Debug)]
pub struct Leaving {
    /// The kernel delivers the message after the close.
    is_quiet: bool,
    is_written: bool,
}

impl Link {
    /// Like [`disconnect`](Self::disconnect), for a peer that would keep the session for another link if it
    /// did not get the message: waits until the peer has closed the connection, and drops what it still
    /// sends. A socket that is closed with unread data resets the connection, which destroys what is on its
    /// way to the peer. A signal that this thread blocks ends the wait, as does an error.
    pub fn leave(&mut self, reason: u32, text: &str, bound: Duration) -> Leave {
        let mut leaving = self.begin_leaving(reason, text, true);
        self.go_on_leaving(&mut leaving, bound)
    }

    /// Begins what [`leave`](Self::leave) does. Continue with [`go_on_leaving`](Self::go_on_leaving).
    ///
    /// On a TCP connection with hardly anything in flight the kernel delivers the message after the close as
    /// well, so that this need not wait, unless the peer `may_send` still.
    pub fn begin_leaving(&mut self, reason: u32, text: &str, may_send: bool) -> Leaving {
        self.stop_workers();
        let is_quiet = !may_send && self.transport.queued_bytes() == 0 && self.stream.delivers_by_itself();
        if !self.lost {
            self.transport.disconnect(reason, text);
        }
        Leaving { is_quiet, is_written: false }
    }

    /// Waits for at most `bound` until the message has arrived, or the link is broken.
    pub fn go_on_leaving(&mut self, leaving: &mut Leaving, bound: Duration) -> Leave {
        let deadline = Instant::now() + bound;
        loop {
            let now = Instant::now();
            if self.lost {
                return Leave::Broken;
            }
            if !leaving.is_written {
                // Checked before the write: a fast peer may close the connection right after it, and then
                // the end of the stream is its answer.
                if !matches!(self.stream.discard(), Ok(false)) {
                    return Leave::Broken;
                }
                if self.flush(now).is_err() || self.write_failed.is_some() {
                    return Leave::Broken;
                }
                if self.transport.queued_bytes() == 0 {
                    if leaving.is_quiet {
                        return Leave::Arrived;
                    }
                    self.stream.end_writing();
                    leaving.is_written = true;
                }
            }
            match self.stream.discard() {
                // The end of a peer that has read the message acknowledges it. Another one is older, as of a
                // server that had given the connection up while its path was lost.
                Ok(true) if leaving.is_written && !self.stream.lacks_acknowledgements() => {
                    return Leave::Arrived;
                }
                Ok(false) => {}
                Ok(true) | Err(_) => return Leave::Broken,
            }
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() || signals::are_pending(&LEAVE_ENDINGS) {
                return Leave::UnderWay;
            }
            let writes = !leaving.is_written && self.limits.writes_from().is_none();
            self.stream.wait_either(writes, left.min(LOOK));
        }
    }
}
