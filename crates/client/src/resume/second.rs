//! A second link beside a stalled one: [`Comparison`] decides when to make it, and when it replaces the
//! first.

use std::io;
use std::sync::PoisonError;
use std::time::Instant;

use lh_driver::ControlCx;
use lh_resume::{Advice, Comparison};

use super::attempt::{Attempt, AttemptReport, SharedProbe};

/// Content of the PINGs on the session's link.
const QUESTION: &[u8] = b"progress@longhaul";

/// The second link and its comparison with the first. See the module documentation.
#[derive(Default)]
pub(super) struct SecondLink {
    comparison: Comparison,
    beside: Option<Candidate>,
}

struct Candidate {
    attempt: Attempt,
    probe: SharedProbe,
    /// Session identifier of the link, after the key exchange.
    session_id: Option<Vec<u8>>,
}

/// The caller's next action.
pub(super) enum Step {
    /// Start an attempt that sends PINGs, and pass it to [`SecondLink::begin`].
    Open(SharedProbe),
    /// Give up the session's link, and claim the session over this attempt's link.
    Replace(Attempt, Vec<u8>),
    /// None; the second link was closed.
    Closed,
}

impl SecondLink {
    /// Records that the session has a new link. A second one is closed.
    pub(super) fn on_new_link(&mut self) {
        self.comparison.on_new_link();
        self.beside = None;
    }

    /// Records that an attempt was started, or failed to start.
    pub(super) fn begin(&mut self, attempt: io::Result<Attempt>, probe: SharedProbe, now: Instant) {
        match attempt {
            Ok(attempt) => self.beside = Some(Candidate { attempt, probe, session_id: None }),
            Err(_) => self.comparison.on_second_failed(now),
        }
    }

    /// Takes the second link, if it has exchanged keys, because the first one is lost or silent. Ends the
    /// comparison in any case.
    pub(super) fn take(&mut self) -> Option<(Attempt, Vec<u8>)> {
        self.comparison.on_new_link();
        let beside = self.beside.take()?;
        Some((beside.attempt, beside.session_id?))
    }

    /// Returns the attempt, while there is one.
    pub(super) fn attempt(&self) -> Option<&Attempt> {
        self.beside.as_ref().map(|beside| &beside.attempt)
    }

    /// Handles a report of the attempt. Returns why it has failed, if so.
    pub(super) fn on_report(&mut self, now: Instant) -> Option<String> {
        let beside = self.beside.as_mut()?;
        let error = match beside.attempt.next_report()? {
            AttemptReport::Reached { session_id } => {
                beside.session_id = Some(session_id);
                return None;
            }
            AttemptReport::Failed(error) => error.to_string(),
            AttemptReport::Accepted { .. } => "it was accepted without a request".to_owned(),
        };
        self.fail(now);
        Some(error)
    }

    fn fail(&mut self, now: Instant) {
        self.beside = None;
        self.comparison.on_second_failed(now);
    }

    /// Handles a PONG of the server on the session's link. Returns true if it answers a PING of this
    /// comparison.
    pub(super) fn on_pong(&mut self, content: &[u8], now: Instant) -> bool {
        let is_ours = content == QUESTION;
        if is_ours && self.comparison.on_answer(now) == Some(Advice::Close) {
            self.beside = None;
        }
        is_ours
    }

    /// Sends a PING on the session's link when one is due, and returns the caller's next action.
    pub(super) fn turn(&mut self, cx: &mut ControlCx<'_>, now: Instant) -> Option<Step> {
        if let Some(beside) = &self.beside {
            if beside.attempt.is_lost_by_fork() {
                self.fail(now);
                return Some(Step::Closed);
            }
            self.comparison.set_probe(*beside.probe.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let messages = cx.received_messages() + cx.message_counts().map_or(0, |(_, sent)| sent);
        match self.comparison.poll(messages, || delivered(cx), now)? {
            Advice::Ask => {
                cx.ping(QUESTION);
                None
            }
            Advice::Open => Some(Step::Open(SharedProbe::default())),
            Advice::Replace => {
                let beside = self.beside.take()?;
                // The attempt has answered PINGs, so it has exchanged keys.
                Some(Step::Replace(beside.attempt, beside.session_id?))
            }
            Advice::Close => {
                self.beside = None;
                Some(Step::Closed)
            }
        }
    }

    /// Returns the time at which to call [`turn`](Self::turn).
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.comparison.next_deadline()
    }
}

/// Returns the number of bytes that the server's TCP has acknowledged, plus those received. `None` where it
/// is unknown (a command or a jump host is in between), and where the server answers no PINGs.
fn delivered(cx: &ControlCx<'_>) -> Option<u64> {
    if cx.peer_extension("ping@openssh.com") != Some(b"0") {
        return None;
    }
    let info = cx.tcp_info()?;
    Some(info.get("bytes_acked")? + info.get("bytes_received")?)
}
