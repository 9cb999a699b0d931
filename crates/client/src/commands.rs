//! The commands that carry connections, with the user's terminal or without.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lh_sys::child::end_of_process;
use lh_sys::spawn::{spawn_detached, spawn_unblocked};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};

/// The process of a command.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    /// The process's pidfd, where the kernel has them. It stays true in a forked copy of this process, in
    /// which the command is no child: its id may be another process's once it has been waited for.
    pidfd: Option<OwnedFd>,
    /// The process leads a session of its own.
    is_detached: bool,
}

/// Whether a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Runs,
    /// `None`: another process has its status, as after a fork.
    Ended(Option<ExitStatus>),
}

impl Process {
    fn new(child: Child, is_detached: bool) -> Arc<Mutex<Self>> {
        // A kqueue, which other systems have for this, does not survive a fork.
        let has_pidfds = cfg!(target_os = "linux");
        let pidfd = has_pidfds.then(|| end_of_process(Pid::from_child(&child)).ok()).flatten();
        Arc::new(Mutex::new(Self { child, pidfd, is_detached }))
    }

    /// A process of this program's session.
    pub(crate) fn attached(child: Child) -> Arc<Mutex<Self>> {
        Self::new(child, false)
    }

    pub(crate) fn state(&mut self) -> State {
        match self.child.try_wait() {
            Ok(Some(status)) => State::Ended(Some(status)),
            Err(_) if self.is_gone() => State::Ended(None),
            Ok(None) | Err(_) => State::Runs,
        }
    }

    /// Returns whether a process that is no child has ended.
    fn is_gone(&self) -> bool {
        let Some(pidfd) = &self.pidfd else {
            return test_kill_process(Pid::from_child(&self.child)).is_err();
        };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.state() != State::Runs
    }

    /// Sends SIGHUP, to all processes of a command with a session of its own.
    pub(crate) fn hang_up(&mut self) {
        if self.has_ended() {
            return;
        }
        let pid = Pid::from_child(&self.child);
        // It may have ended meanwhile.
        let _ = match &self.pidfd {
            // Only the process that has started it does so: the id is the child's until it is waited for.
            _ if self.is_detached => kill_process_group(pid, Signal::HUP),
            #[cfg(target_os = "linux")]
            Some(pidfd) => rustix::process::pidfd_send_signal(pidfd, Signal::HUP),
            _ => kill_process(pid, Signal::HUP),
        };
    }
}

/// Locks it, also where a thread has panicked.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Commands of attempts to connect, which may run on threads, and which can all be hung up.
#[derive(Debug, Clone)]
pub struct Commands {
    is_detached: bool,
    started: Arc<Mutex<Started>>,
}

#[derive(Debug, Default)]
struct Started {
    /// Those that may still run.
    processes: Vec<Arc<Mutex<Process>>>,
    is_over: bool,
}

impl Commands {
    /// Commands with the user's terminal, if there is one.
    pub(crate) fn attached() -> Self {
        Self { is_detached: false, started: Arc::default() }
    }

    /// Commands without a terminal, for a client that ends: a command that asks for a password would read
    /// what the user types for the shell. Their messages are dropped, because they would come after the
    /// prompt.
    pub(crate) fn detached() -> Self {
        Self { is_detached: true, started: Arc::default() }
    }

    /// Starts a command, unless they have been hung up.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Arc<Mutex<Process>>> {
        // Held while the command starts, so that none is missed.
        let mut started = locked(&self.started);
        if started.is_over {
            return Err(io::ErrorKind::Interrupted.into());
        }
        started.processes.retain(|process| !locked(process).has_ended());
        let child = if self.is_detached {
            spawn_detached(command.env("SSH_ASKPASS_REQUIRE", "never").stderr(Stdio::null()))?
        } else {
            spawn_unblocked(command)?
        };
        let process = Process::new(child, self.is_detached);
        started.processes.push(Arc::clone(&process));
        Ok(process)
    }

    /// Sends SIGHUP to all commands that run, whichever thread uses them. No other is started.
    pub(crate) fn hang_up(&self) {
        let mut started = locked(&self.started);
        started.is_over = true;
        started.processes.drain(..).for_each(|process| locked(&process).hang_up());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_are_hung_up_end() {
        for commands in [Commands::attached(), Commands::detached()] {
            let process = commands.spawn(Command::new("sleep").arg("1000")).expect("started");
            assert!(!locked(&process).has_ended());
            commands.clone().hang_up();
            while !locked(&process).has_ended() {
                std::thread::yield_now();
            }
            let error = commands.spawn(&mut Command::new("true")).expect_err("it is over");
            assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        }
    }

    /// As in a forked copy, where the command is no child.
    #[test]
    fn a_process_that_another_has_waited_for_has_ended() {
        let child = Command::new("sleep").arg("1000").spawn().expect("started");
        let pid = Pid::from_child(&child);
        let process = Process::attached(child);
        assert_eq!(locked(&process).state(), State::Runs);
        locked(&process).hang_up();
        let options = rustix::process::WaitOptions::empty();
        rustix::process::waitpid(Some(pid), options).expect("a child");
        assert_eq!(locked(&process).state(), State::Ended(None));
    }
}
