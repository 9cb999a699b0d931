//! Leaving over another connection, where the present one does not deliver DISCONNECT, or was lost when the
//! client was told to end.
//!
//! ^C at a terminal ends a `ProxyCommand` such as nc together with the client, and with it the connection on
//! which the client would have left. What is queued on a slow path may need longer than a user waits for the
//! prompt. Without a word from the client the server would keep the session.

use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use lh_driver::{Driver, LEAVE_ENDINGS, Leave, Leaving, Link};
use lh_resume::Failure;
use lh_sys::signals;
use lh_wire::msg::disconnect;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Resuming;
use super::attempt::{Attempt, AttemptError, AttemptReport, ProofError};
use crate::carrier::Carrier;
use crate::commands::Commands;
use crate::farewell::LEAVE_TEXT;
use crate::login::Needed;
use crate::options::{Options, Purpose};
use crate::ui::LogLevel;

/// Time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Time between two looks for the new connection, while the present one may still deliver the message.
const LOOK_AT_BOTH: Duration = Duration::from_millis(10);

/// Time from the start of one attempt to the next, where the path to a host that is away fails at once.
const NEXT_ATTEMPT: Duration = Duration::from_millis(250);

/// Why the session has not been ended over a new connection.
#[derive(Debug, thiserror::Error)]
enum LeaveError {
    /// The attempt to connect was not begun.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// The time is over, or a signal ended the wait.
    #[error("the server has not been told that the session ends")]
    NotTold,
    /// The server's proof is not accepted.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// No link that has claimed the session.
    #[error(transparent)]
    Attempt(AttemptError),
}

impl LeaveError {
    /// Returns whether another attempt may reach the server.
    const fn is_of_path(&self) -> bool {
        match self {
            Self::Attempt(error) => matches!(error.failure(false), Failure::Path),
            Self::Start(_) | Self::NotTold | Self::Proof(_) => false,
        }
    }
}

/// The session's connection, on which the client has begun to leave.
struct Present<'a> {
    link: &'a mut Link,
    leaving: Leaving,
    carrier: Option<Carrier>,
    may_deliver: bool,
}

impl Present<'_> {
    /// Waits for at most `bound` until the message has arrived. Returns whether it has; false at once where
    /// the connection is broken.
    fn has_arrived(&mut self, bound: Duration) -> bool {
        if !self.may_deliver {
            return false;
        }
        match self.link.go_on_leaving(&mut self.leaving, bound) {
            Leave::UnderWay => return false,
            Leave::Arrived if !self.carrier.as_ref().is_some_and(Carrier::has_failed) => return true,
            Leave::Arrived | Leave::Broken => {}
        }
        self.give_up();
        false
    }

    /// Ends what carries the connection, which cannot deliver the message any more.
    fn give_up(&mut self) {
        (self.carrier, self.may_deliver) = (None, false);
    }
}

impl Resuming {
    /// Leaves over a new connection, unless `state` says that the present one has delivered the message, or
    /// it does so meanwhile. A further signal, which the calling thread blocks, ends the wait. Where it ends
    /// the process instead, in a program that blocks no signals, the command of the new connection notices
    /// the end of its input.
    pub(crate) fn leave_again(
        &mut self,
        driver: &mut Driver,
        leaving: Leaving,
        state: Leave,
        deadline: Instant,
    ) {
        let cx = driver.control();
        if self.agreed.is_none() {
            self.agreed = cx.resumable_session().cloned().and_then(|session| self.agree(&session, &cx));
        }
        let (is_away, received) = (cx.is_away(), cx.received_messages());
        let Some(agreed) = &self.agreed else { return };
        let user_waits = self.user_may_wait();
        // A user at a terminal does not wait for a host that the terminal says is away. The kernel still
        // delivers the message over a silent connection that works again.
        if user_waits && agreed.notice().is_some_and(|told| told <= Instant::now()) {
            return;
        }
        let may_deliver = agreed.away.is_none() && !is_away && state != Leave::Broken;
        let carrier = self.carrier.take().filter(|_| may_deliver);
        let mut present = Present { link: driver.link(), leaving, carrier, may_deliver };
        if state == Leave::Arrived && present.has_arrived(Duration::ZERO) {
            return;
        }
        // A jump host would refuse the login, or a key would wait for a touch that no message asks for.
        if self.at_hops == Needed::User {
            present.has_arrived(deadline.saturating_duration_since(Instant::now()));
            return;
        }
        self.logger.say(LogLevel::Verbose, "connecting again to end the session");
        let commands = Commands::detached();
        let options = Options { commands: Some(commands.clone()), ..self.options.clone() };
        let left = loop {
            let next = Instant::now() + NEXT_ATTEMPT;
            let left = self.claim_and_leave(&options, received, &mut present, deadline);
            // The network that has taken the connection may refuse the first attempts as well.
            let may_arrive = left.as_ref().is_err_and(|why| !present.may_deliver && why.is_of_path());
            if user_waits || !may_arrive || !waits_until(next, deadline) {
                break left;
            }
        };
        // The thread that has started a command may still wait for it.
        commands.hang_up();
        if let Err(why) = left {
            self.logger.say(LogLevel::Debug1, &format!("resume: {why}"));
        }
    }

    /// Returns whether a user at a terminal may wait for the end of this program. The standard error of a
    /// `ProxyCommand` is the terminal of another program's user, which ends without waiting for the command.
    fn user_may_wait(&self) -> bool {
        let is_foreign = self.options.purpose == Purpose::Forwards;
        io::stdin().is_terminal() || (!is_foreign && io::stderr().is_terminal())
    }

    /// Claims the session over a new connection and sends DISCONNECT on it, unless the present one delivers
    /// it before.
    fn claim_and_leave(
        &mut self,
        options: &Options,
        received: u64,
        present: &mut Present<'_>,
        deadline: Instant,
    ) -> Result<(), LeaveError> {
        let Some(agreed) = &mut self.agreed else { return Ok(()) };
        agreed.attempts.clear();
        let id = agreed.reconnect.number();
        let mut attempt = Attempt::start(id, options, &agreed.host_key, self.connect, None)?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || signals::are_pending(&LEAVE_ENDINGS) {
                return Err(LeaveError::NotTold);
            }
            match attempt.next_report() {
                None if present.has_arrived(left.min(LOOK_AT_BOTH)) => return Ok(()),
                None if present.may_deliver => {}
                None => {
                    let mut fds = [PollFd::from_borrowed_fd(attempt.wake().as_fd(), PollFlags::IN)];
                    // An error (EINTR) is like the end of the time.
                    let _ = poll(&mut fds, Timespec::try_from(left.min(LOOK)).ok().as_ref());
                }
                Some(AttemptReport::Reached { .. }) if present.has_arrived(Duration::ZERO) => return Ok(()),
                Some(AttemptReport::Reached { session_id }) => {
                    // The server closes the present connection when it accepts the claim.
                    present.give_up();
                    let user = self.options.config.user();
                    let request = agreed.secret.request(user, &session_id, received);
                    attempt.claim(request, session_id);
                }
                Some(AttemptReport::Accepted { mut link, carrier, answer }) => {
                    let claim = attempt.made_claim().ok_or(ProofError::NoClaim)?;
                    claim.verify(&mut agreed.secret, &link, &answer)?;
                    link.set_authenticated();
                    link.leave(disconnect::BY_APPLICATION, LEAVE_TEXT, left);
                    // A command is ended after its pipes have been used.
                    drop(carrier);
                    return Ok(());
                }
                // The present one may still deliver it.
                Some(AttemptReport::Failed(error)) if present.has_arrived(left) => {
                    drop(error);
                    return Ok(());
                }
                Some(AttemptReport::Failed(error)) => return Err(LeaveError::Attempt(error)),
            }
        }
    }
}

/// Waits until `time`. Returns false if the deadline is before, or a signal ends the wait.
fn waits_until(time: Instant, deadline: Instant) -> bool {
    while !signals::are_pending(&LEAVE_ENDINGS) {
        let now = Instant::now();
        if now >= deadline {
            return false;
        }
        if now >= time {
            return true;
        }
        std::thread::sleep((time - now).min(LOOK));
    }
    false
}
