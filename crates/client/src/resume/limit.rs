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
/// limit. A session with such a limit also ends when a host whose key is accepted, other than the session's
/// server, does not have it: the program can log in there.
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

    /// True for a program with a limit, which can log in again.
    pub(super) const fn exists(&self) -> bool {
        self.by.is_some()
    }

    /// Returns the level of the message that the session has ended: a program with a limit reports it.
    pub(super) const fn level_of_end(&self) -> LogLevel {
        if self.by.is_some() { LogLevel::Verbose } else { LogLevel::Error }
    }
}
