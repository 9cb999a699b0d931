//! Tries again to listen where a waiting session of the same user has the port or socket.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lh_driver::{ControlCx, Source};

use super::offers::{Offer, is_open};

/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(25);

/// Longest wait for the end of a session that was asked.
const END: Duration = Duration::from_secs(5);

/// Wait after all sessions that were asked have closed their connections: one that ends may close its
/// listeners a moment later.
const AFTER_ANSWER: Duration = Duration::from_millis(500);

/// Tries to listen; `true`: for the last time. Returns whether it is done: the request is answered.
type Attempt = Box<dyn FnMut(bool, &mut ControlCx<'_>) -> bool>;

/// A request to listen that waits for another session's end. See the module documentation.
pub(super) struct Taking {
    /// Connections to the sessions that have been asked and have not answered.
    asked: Vec<UnixStream>,
    next: Instant,
    until: Instant,
    attempt: Attempt,
    is_done: bool,
}

impl Taking {
    /// Asks the sessions that offer the listeners. Returns no connections where none does: then the request
    /// is to be refused at once, because clients run commands beside it and expect the refusal before their
    /// ends.
    pub(super) fn ask(offers: &[Offer]) -> Vec<UnixStream> {
        offers.iter().filter_map(Offer::ask).collect()
    }

    /// Waits for the listeners of sessions that have been asked. `attempt` is called from the loop until it
    /// is done.
    pub(super) fn begin(
        asked: Vec<UnixStream>,
        cx: &mut ControlCx<'_>,
        attempt: impl FnMut(bool, &mut ControlCx<'_>) -> bool + 'static,
    ) {
        let (now, attempt) = (cx.now(), Box::new(attempt));
        let taking = Self { asked, next: now + PAUSE, until: now + END, attempt, is_done: false };
        cx.add_source(Box::new(taking));
    }
}

impl Source for Taking {
    fn next_deadline(&self) -> Option<Instant> {
        (!self.is_done).then_some(self.next)
    }

    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let now = cx.now();
        if self.is_done || now < self.next {
            return;
        }
        if !self.asked.is_empty() {
            // A session closes the connection when it has given its listener, or will not.
            self.asked.retain(is_open);
            if self.asked.is_empty() {
                self.until = self.until.min(now + AFTER_ANSWER);
            }
        }
        self.is_done = (self.attempt)(now >= self.until, cx);
        self.next = now + PAUSE;
    }

    fn finished(&self) -> bool {
        self.is_done
    }
}
