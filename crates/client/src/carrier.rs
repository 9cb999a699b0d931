//! What carries a connection other than TCP: a command, or a connection to a jump host.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lh_driver::Stream;
use lh_sys::child::is_ending;
use lh_sys::spawn::spawn_unblocked;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;

use crate::commands::{Commands, Process, locked};
use crate::options::user_shell;

/// Longest wait for the end of a command or a jump host's connection that has closed the stream.
const END: Duration = Duration::from_millis(200);

/// Time between two looks for the exit of a command.
const LOOK: Duration = Duration::from_millis(2);

/// What carries a connection.
#[derive(Debug)]
pub(crate) enum Carrier {
    Command(ProxyCommand),
    JumpHost(HopEnd),
}

impl Carrier {
    /// Returns whether it has failed, where it has closed the stream: it may have lost what it had taken.
    /// Waits a moment for one that is ending.
    pub(crate) fn has_failed(&mut self) -> bool {
        match self {
            Self::Command(command) => command.has_failed(),
            Self::JumpHost(end) => end.has_failed(),
        }
    }

    /// Leaves it to the copy of this process in which the connection is used.
    pub(crate) fn leave_to_copy(self) {
        match self {
            // The copy signals the command at the end.
            Self::Command(command) => std::mem::forget(command),
            Self::JumpHost(_) => {}
        }
    }
}

/// A running `ProxyCommand`. Gets SIGHUP when dropped, as when a terminal hangs up.
#[derive(Debug)]
pub(crate) struct ProxyCommand {
    process: Arc<Mutex<Process>>,
}

impl ProxyCommand {
    /// Starts `command` in the user's shell, with the connection on its standard input and output, as one of
    /// `commands` if these are given.
    pub(crate) fn start(command: &str, commands: Option<&Commands>) -> io::Result<(Self, Stream)> {
        // `exec`, so that no shell process remains between us and the command.
        let mut shell = Command::new(user_shell());
        shell.arg("-c").arg(format!("exec {command}")).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A session that is resumed connects on a thread of a program that collects signals.
        let process = match commands {
            Some(commands) => commands.spawn(&mut shell)?,
            None => Process::attached(spawn_unblocked(&mut shell)?),
        };
        let command = Self { process };
        let pipes = {
            let child = &mut locked(&command.process).child;
            (child.stdin.take(), child.stdout.take())
        };
        let (Some(stdin), Some(stdout)) = pipes else { return Err(io::Error::other("no pipes")) };
        let stream = Stream::pipes(OwnedFd::from(stdout), OwnedFd::from(stdin))?;
        Ok((command, stream))
    }

    /// Returns whether the command has ended other than with status 0, as when a signal has ended it. One
    /// that still runs has not failed; one whose end has begun is waited for.
    fn has_failed(&mut self) -> bool {
        let deadline = Instant::now() + END;
        loop {
            let (state, pid) = {
                let child = &mut locked(&self.process).child;
                (child.try_wait(), Pid::from_child(child))
            };
            match state {
                Ok(Some(status)) => return !status.success(),
                Ok(None) if is_ending(pid) != Some(false) && Instant::now() < deadline => {
                    std::thread::sleep(LOOK);
                }
                // In a forked copy the command is not its child.
                Ok(None) | Err(_) => return false,
            }
        }
    }
}

impl Drop for ProxyCommand {
    fn drop(&mut self) {
        locked(&self.process).hang_up();
    }
}

/// Tells how a jump host's connection ended, which runs in a copy of this process or in a thread.
#[derive(Debug)]
pub(crate) struct HopEnd(UnixStream);

/// The other end of a [`HopEnd`]. Dropped without a report, the connection has failed.
#[derive(Debug)]
pub(crate) struct HopReport(UnixStream);

/// Returns both ends.
pub(crate) fn hop_end() -> io::Result<(HopEnd, HopReport)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((HopEnd(ours), HopReport(theirs)))
}

impl HopReport {
    /// Reports that the jump host has closed the channel, or its direction of it. Call it before the session
    /// can notice that.
    pub(crate) fn closed(&self) {
        // It fails only if the session has gone.
        let _ = (&self.0).write(&[0]);
    }
}

impl HopEnd {
    fn has_failed(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        // An error (EINTR) is like the end of the time.
        let _ = poll(&mut fds, Timespec::try_from(END).ok().as_ref());
        matches!((&self.0).read(&mut [0]), Ok(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a command that has closed the stream counts as failed. `reaped`: it has been waited
    /// for.
    fn fails(line: &str) -> bool {
        let (mut command, stream) = ProxyCommand::start(line, None).expect("started");
        let mut fds = [PollFd::from_borrowed_fd(stream.read_fd(), PollFlags::IN)];
        poll(&mut fds, None).expect("it closes its output");
        command.has_failed()
    }

    #[test]
    fn a_command_that_a_signal_ended_has_failed() {
        assert!(fails("sh -c 'kill -INT $$'"));
        assert!(fails("sh -c 'exit 3'"));
        assert!(!fails("true"));
        // It closes its pipes and runs on.
        assert!(!fails("sleep 1000 >&- <&-"));
    }

    #[test]
    fn a_jump_host_fails_unless_it_closes_the_channel() {
        let (end, report) = hop_end().expect("descriptors");
        assert!(!end.has_failed());
        report.closed();
        drop(report);
        assert!(!end.has_failed());
        let (end, report) = hop_end().expect("descriptors");
        drop(report);
        assert!(end.has_failed());
    }
}
