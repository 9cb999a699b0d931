//! Limit for resuming a session, of a program that can start over or has limits of its own.

use std::time::Instant;

use lh_resume::Failure;

use crate::ui::LogLevel;

/// How an attempt to resume a session failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptFailure {
    /// Nothing was reached: no network, no route, no name service, or no answer in time.
    NoAnswer,
    /// The host refused the connection, or what was reached ended it.
    Ended,
}

/// Decides for how long a session without a connection is kept, in addition to `Resume` and the server's
/// limit.
pub trait ResumeLimit: Send {
    /// Records that the session has no connection now. The first attempt to resume it starts at once.
    fn on_lost(&mut self, now: Instant);

    /// Records that an attempt failed. Not reported are attempts that were abandoned for want of an answer,
    /// and the one that ends the session because the server does not have it.
    fn on_failed(&mut self, failure: AttemptFailure, now: Instant);

    /// Records that the session has a connection again.
    fn on_resumed(&mut self, now: Instant);

    /// Returns true when the session shall end. Called only while it has no connection.
    fn is_over(&mut self, now: Instant) -> bool;

    /// Returns the time at which to call [`is_over`](Self::is_over).
    fn next_deadline(&self) -> Option<Instant>;

    /// Returns true for a program that can log in again when the session has ended. Such a session also ends
    /// when a host whose key is accepted, other than the session's server, does not have it: the program can
    /// log in there. And the program reports the end.
    fn can_log_in(&self) -> bool;
}

/// The program's limit, if it has one.
#[derive(Default)]
pub(super) struct Limit {
    by: Option<Box<dyn ResumeLimit>>,
    /// The limit knows that the session has no link.
    applies: bool,
}

impl Limit {
    /// Returns a limit whose session has a link.
    pub(super) fn new(by: Box<dyn ResumeLimit>) -> Self {
        Self { by: Some(by), applies: false }
    }

    /// Returns true when the session, which has no link, shall end.
    pub(super) fn is_over(&mut self, now: Instant) -> bool {
        let Some(by) = &mut self.by else { return false };
        if !std::mem::replace(&mut self.applies, true) {
            by.on_lost(now);
        }
        by.is_over(now)
    }

    /// Records a failed attempt. One that ends the session is not reported to the program, which sees the
    /// end.
    pub(super) fn on_failed(&mut self, failure: AttemptFailure, meaning: Failure, now: Instant) {
        if let Some(by) = self.by.as_mut().filter(|_| self.applies && meaning != Failure::Refused) {
            by.on_failed(failure, now);
        }
    }

    pub(super) fn on_resumed(&mut self, now: Instant) {
        if let Some(by) = self.by.as_mut().filter(|_| std::mem::take(&mut self.applies)) {
            by.on_resumed(now);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.by.as_ref().filter(|_| self.applies)?.next_deadline()
    }

    /// True for a program that can log in again.
    pub(super) fn can_log_in(&self) -> bool {
        self.by.as_ref().is_some_and(|by| by.can_log_in())
    }

    /// Returns the level of the message that the session has ended: a program that can log in again reports
    /// it.
    pub(super) fn level_of_end(&self) -> LogLevel {
        if self.can_log_in() { LogLevel::Verbose } else { LogLevel::Error }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attempt::{AttemptError, Refusal};
    use super::*;

    /// A limit of a program that can log in again, or cannot.
    struct Fake(bool);

    impl ResumeLimit for Fake {
        fn on_lost(&mut self, _now: Instant) {}

        fn on_failed(&mut self, _failure: AttemptFailure, _now: Instant) {}

        fn on_resumed(&mut self, _now: Instant) {}

        fn is_over(&mut self, _now: Instant) -> bool {
            false
        }

        fn next_deadline(&self) -> Option<Instant> {
            None
        }

        fn can_log_in(&self) -> bool {
            self.0
        }
    }

    /// Behind a load balancer, the next attempt may reach the session's server: only a program that can log
    /// in again does not wait for it.
    #[test]
    fn another_host_ends_only_sessions_that_a_login_replaces() {
        for (limit, end) in [
            (Limit::default(), None),
            (Limit::new(Box::new(Fake(false))), None),
            (Limit::new(Box::new(Fake(true))), Some(LogLevel::Verbose)),
        ] {
            let failure = |meaning| {
                AttemptError::Refused { meaning, refusal: Refusal::Declined }.failure(limit.can_log_in())
            };
            assert_eq!(failure(Failure::Refused), Failure::Refused);
            let elsewhere = if end.is_some() { Failure::Refused } else { Failure::Elsewhere };
            assert_eq!(failure(Failure::Elsewhere), elsewhere);
            assert_eq!(limit.level_of_end(), end.unwrap_or(LogLevel::Error));
        }
    }
}
