//! Tries again to listen where a waiting session of the same user may have the port or socket.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lh_driver::{ControlCx, Source};

use super::offers::Offer;

/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(25);

/// How long a session is looked for that has the port. The process of a client that has just been killed may
/// not have noticed it yet.
const LOOK: Duration = Duration::from_millis(250);

/// Longest wait for the end of a session that was asked.
const END: Duration = Duration::from_secs(5);

/// Tries to listen; `true`: for the last time. Returns whether it is done: the request is answered.
type Attempt = Box<dyn FnMut(bool, &mut ControlCx<'_>) -> bool>;

/// A request to listen that waits for another session's end. See the module documentation.
pub(super) struct Taking {
    offers: Vec<Offer>,
    asked: Vec<(Offer, UnixStream)>,
    next: Instant,
    until: Instant,
    attempt: Attempt,
    is_done: bool,
}

impl Taking {
    /// Begins to ask for `offers`. `attempt` is called from the loop until it is done.
    pub(super) fn begin(
        offers: Vec<Offer>,
        cx: &mut ControlCx<'_>,
        attempt: impl FnMut(bool, &mut ControlCx<'_>) -> bool + 'static,
    ) {
        let (now, attempt) = (cx.now(), Box::new(attempt));
        let mut taking =
            Self { offers, asked: Vec::new(), next: now, until: now + LOOK, attempt, is_done: false };
        taking.ask(now);
        taking.next = now + PAUSE;
        cx.add_source(Box::new(taking));
    }

    /// Asks the sessions that have not been asked.
    fn ask(&mut self, now: Instant) {
        for offer in &self.offers {
            if !self.asked.iter().any(|(asked, _)| asked == offer)
                && let Some(socket) = offer.ask()
            {
                self.asked.push((offer.clone(), socket));
                self.until = now + END;
            }
        }
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
        self.ask(now);
        self.is_done = (self.attempt)(now >= self.until, cx);
        self.next = now + PAUSE;
    }

    fn finished(&self) -> bool {
        self.is_done
    }
}
