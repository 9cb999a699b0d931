//! What both ends have agreed on for resuming a session, and the links that it has or tries to get.

use std::time::{Duration, Instant};

use lh_crypto::PublicKey;
use lh_driver::ControlCx;
use lh_resume::{AttemptId, ClientSecret, Failure, Reconnect};

use super::attempt::Attempt;
use super::path::PathWatch;
use super::second::SecondLink;
use super::status::Status;

/// Time without a link before the user at a terminal is told.
const NOTICE_DELAY: Duration = Duration::from_millis(500);

/// Silence of a link, beside attempts to replace it, before the user at a terminal is told.
const SILENCE_NOTICE_DELAY: Duration = Duration::from_secs(3);

/// The terms of a session that can be resumed, and its links.
pub(super) struct ResumableSession {
    pub(super) secret: ClientSecret,
    /// The host key of the session's server.
    pub(super) host_key: PublicKey,
    pub(super) reconnect: Reconnect,
    pub(super) attempts: Vec<Attempt>,
    /// The last attempt reached another host.
    pub(super) is_elsewhere: bool,
    pub(super) path: PathWatch,
    /// Time at which the user is told that there is no link; `None` while there is one.
    pub(super) away: Option<Instant>,
    /// Time at which the user is told that the link is silent; `None` if it was not, before it was lost.
    pub(super) silent: Option<Instant>,
    /// The link has been silent: the server may have closed it meanwhile.
    pub(super) has_been_silent: bool,
    /// The link is silent, and attempts to replace it are under way.
    pub(super) suspects: bool,
    /// A second link beside a stalled one.
    pub(super) second: SecondLink,
}

impl ResumableSession {
    /// Claims the session over the link of this attempt, while the session has no other link.
    pub(super) fn claim(&mut self, index: usize, session_id: Vec<u8>, user: &str, cx: &ControlCx<'_>) {
        let Some(attempt) = self.attempts.get_mut(index) else { return };
        attempt.claim(self.secret.request(user, &session_id, cx.received_messages()), session_id);
    }

    /// Continues over a second link, after the present one has been lost.
    pub(super) fn take_over(
        &mut self,
        second: (Attempt, Vec<u8>),
        user: &str,
        cx: &ControlCx<'_>,
        now: Instant,
    ) {
        let (attempt, session_id) = second;
        self.attempts.clear();
        self.reconnect.set_round_trip(self.path.round_trip());
        // A silent link may have counted as broken already.
        self.reconnect.on_resumed(now);
        self.reconnect.on_broken_beside(attempt.id(), now);
        self.attempts.push(attempt);
        self.claim(0, session_id, user, cx);
        self.on_lost(now);
    }

    /// Records that the link is silent: attempts to replace it begin.
    pub(super) fn on_silent(&mut self, now: Instant) {
        (self.suspects, self.has_been_silent) = (true, true);
        self.silent = Some(now + SILENCE_NOTICE_DELAY);
        self.reconnect.set_round_trip(self.path.round_trip());
        self.reconnect.on_broken(now);
    }

    /// Returns the time at which the user is told that nothing gets through.
    pub(super) fn notice(&self) -> Option<Instant> {
        [self.away, self.silent].into_iter().flatten().min()
    }

    /// Records that the session has no link.
    pub(super) fn on_lost(&mut self, now: Instant) {
        self.away = Some(now + NOTICE_DELAY);
        self.suspects = false;
        self.path.on_lost();
    }

    /// True if the link was lost a moment ago.
    pub(super) fn is_lost_at(&self, now: Instant) -> bool {
        self.away.is_some_and(|told| now < told)
    }

    /// Records that the link works after all. Ends other attempts, and removes the line about them.
    pub(super) fn trust_link(&mut self, status: &mut Status, now: Instant) {
        self.silent = None;
        status.clear();
        if std::mem::take(&mut self.suspects) {
            self.attempts.clear();
            self.reconnect.on_resumed(now);
        }
    }

    /// Records a failed attempt.
    pub(super) fn fail(&mut self, id: AttemptId, failure: Failure, now: Instant) {
        self.is_elsewhere = matches!(failure, Failure::OtherKey | Failure::Elsewhere);
        self.reconnect.on_failed(id, failure, now);
    }
}
