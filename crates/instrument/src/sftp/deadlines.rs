//! When a session has to act without an event.

use std::time::{Duration, Instant};

/// Longest time without an answer, and what it is once the user wants an end.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
pub(super) const HURRIED_LIMIT: Duration = Duration::from_secs(10);
/// Time between looks at whether the user wants an end.
const LOOK: Duration = Duration::from_millis(100);

/// The deadlines of a session's steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadlines {
    /// When the steps begin, until they have.
    begins: Option<Instant>,
    /// When the server last answered, or the steps began.
    last_answer: Instant,
    /// Longest time without an answer.
    limit: Duration,
    next_look: Instant,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The first requests.
    Begin,
    /// A look at whether the user wants an end.
    Look,
    /// The end: the server does not answer.
    End,
}

impl Deadlines {
    pub(super) fn new(now: Instant, limit: Duration) -> Self {
        Self { begins: Some(now), last_answer: now, limit, next_look: now + LOOK }
    }

    pub(super) fn on_answer(&mut self, now: Instant) {
        self.last_answer = now;
    }

    /// Waits for the next answer for this time from now.
    pub(super) fn hurry(&mut self, now: Instant, limit: Duration) {
        (self.last_answer, self.limit) = (now, limit);
    }

    pub(super) fn next(&self) -> Instant {
        self.begins.unwrap_or_else(|| self.next_look.min(self.last_answer + self.limit))
    }

    /// Returns what is due. Unless it is the end, [`next`](Self::next) is later than `now` from here on.
    pub(super) fn on_timeout(&mut self, now: Instant) -> Due {
        let begins = self.begins.take().is_some();
        if self.last_answer + self.limit <= now {
            return Due::End;
        }
        self.next_look = now + LOOK;
        if begins { Due::Begin } else { Due::Look }
    }
}
