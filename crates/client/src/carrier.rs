//! What carries a connection other than TCP: a command, or a connection to a jump host.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lh_driver::Stream;
use lh_sys::spawn::spawn_unblocked;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::commands::{Commands, Process, State, locked};
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
    /// Waits a moment for its end.
    pub(crate) fn has_failed(&self) -> bool {
        match self {
            Self::Command(command) => command.has_failed_within(END),
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

    /// Returns whether the command ends within `time`, other than with status 0, as when a signal ends it.
    /// One that runs on has not failed. A command can close its pipes some time before it ends with an error,
    /// as `ssh -W` does. In a forked copy of this process nothing tells the status.
    fn has_failed_within(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            match locked(&self.process).state() {
                State::Ended(status) => return !status.is_some_and(|status| status.success()),
                State::Runs if Instant::now() >= deadline => return false,
                State::Runs => {}
            }
            std::thread::sleep(LOOK);
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

    /// Starts a command and waits until it has closed its output.
    fn closed(line: &str) -> ProxyCommand {
        let (command, stream) = ProxyCommand::start(line, None).expect("started");
        let mut fds = [PollFd::from_borrowed_fd(stream.read_fd(), PollFlags::IN)];
        poll(&mut fds, None).expect("it closes its output");
        command
    }

    #[test]
    fn a_command_that_a_signal_ended_has_failed() {
        let long = Duration::from_secs(60);
        assert!(closed("sh -c 'kill -KILL $$'").has_failed_within(long));
        assert!(closed("sh -c 'exit 3'").has_failed_within(long));
        assert!(!closed("true").has_failed_within(long));
        // It closes its pipes and runs on: for long, or to its failure, as `ssh -W`.
        assert!(!closed("sleep 1000 >&- <&-").has_failed_within(Duration::ZERO));
        assert!(closed("sh -c 'exec >&- <&-; sleep 0.05; exit 255'").has_failed_within(long));
    }

    /// As in a forked copy of the process that has started it.
    #[test]
    fn a_command_whose_status_is_unknown_has_failed() {
        let command = closed("true");
        let pid = rustix::process::Pid::from_child(&locked(&command.process).child);
        let options = rustix::process::WaitOptions::empty();
        rustix::process::waitpid(Some(pid), options).expect("a child");
        assert!(command.has_failed_within(Duration::from_secs(60)));
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
