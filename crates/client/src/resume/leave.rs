//! Taking leave over another connection, where the present one was lost when the client was told to end.
//!
//! ^C at a terminal ends a `ProxyCommand` such as nc together with the client, and with it the connection on
//! which the client would have taken leave. Without a word from the client the server would keep the session.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use lh_driver::ControlCx;
use lh_sys::signals;
use lh_wire::msg::disconnect;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::Resuming;
use super::attempt::{Attempt, AttemptReport};
use crate::detached::Detached;
use crate::farewell::LEAVE_TEXT;
use crate::options::Options;
use crate::proxy::ProxyCommand;
use crate::ui::LogLevel;

/// Time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Signals that end the wait. Not SIGHUP: a terminal that is closed sends it twice, itself and by the shell.
const ENDING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::QUIT];

impl Resuming {
    /// Takes leave over a new connection, if the last one led through a command that has failed, or a path
    /// of commands that was lost a moment ago. `first_proxy`: the command of the session's first link. A
    /// further signal, which the calling thread blocks, ends the wait.
    pub(crate) fn leave_again(
        &mut self,
        first_proxy: Option<&mut ProxyCommand>,
        cx: &mut ControlCx<'_>,
        deadline: Instant,
    ) {
        if self.options.config.is_direct() {
            return;
        }
        if self.agreed.is_none() {
            self.agreed = cx.resumable_session().cloned().and_then(|session| self.agree(&session, cx));
        }
        let Some(agreed) = &self.agreed else { return };
        let is_lost = match agreed.away {
            // A host that has been away for longer is not waited for.
            Some(told) => Instant::now() < told,
            // The loop has not noticed it.
            None if cx.is_away() => true,
            None => self.proxy.as_mut().or(first_proxy).is_some_and(ProxyCommand::has_failed),
        };
        if is_lost {
            self.logger.say(LogLevel::Verbose, "connection lost; reconnecting to end the session");
            let commands = Detached::default();
            let options = Options { detached: Some(commands.clone()), ..self.options.clone() };
            let left = self.claim_and_leave(&options, cx.received_messages(), deadline);
            // The thread that has started a command may still wait for it.
            commands.hang_up();
            if let Err(why) = left {
                self.logger.say(LogLevel::Debug1, &format!("resume: {why}"));
            }
        }
    }

    /// Claims the session over a new connection and sends DISCONNECT on it.
    fn claim_and_leave(&mut self, options: &Options, received: u64, deadline: Instant) -> Result<(), String> {
        let Some(agreed) = &mut self.agreed else { return Ok(()) };
        agreed.attempts.clear();
        let id = agreed.reconnect.number();
        let mut attempt = Attempt::start(id, options, &agreed.host_key, self.connect, None)
            .map_err(|error| error.to_string())?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || signals::are_pending(&ENDING) {
                return Err("the server has not been told that the session ends".to_owned());
            }
            match attempt.next_report() {
                None => {
                    let mut fds = [PollFd::from_borrowed_fd(attempt.wake().as_fd(), PollFlags::IN)];
                    // An error (EINTR) is like the end of the time.
                    let _ = poll(&mut fds, Timespec::try_from(left.min(LOOK)).ok().as_ref());
                }
                Some(AttemptReport::Reached { session_id }) => {
                    let user = self.options.config.user();
                    let request = agreed.secret.request(user, &session_id, received);
                    attempt.claim(request, session_id);
                }
                Some(AttemptReport::Accepted { mut link, proxy, answer }) => {
                    let claim = attempt.made_claim().ok_or("no claim was made")?;
                    claim.verify(&mut agreed.secret, &link, &answer).map_err(|error| error.to_string())?;
                    link.transport().set_authenticated();
                    link.leave(disconnect::BY_APPLICATION, LEAVE_TEXT, true, left);
                    // The command is ended after its pipes have been used.
                    drop(proxy);
                    return Ok(());
                }
                Some(AttemptReport::Failed(error)) => return Err(error.to_string()),
            }
        }
    }
}
