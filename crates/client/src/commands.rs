//! The commands that carry connections, with the user's terminal or without.

use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lh_sys::spawn::{spawn_detached, spawn_unblocked};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The process of a command.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    /// The process leads a session of its own.
    is_detached: bool,
}

impl Process {
    /// A process of this program's session.
    pub(crate) fn attached(child: Child) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { child, is_detached: false }))
    }

    /// True unless the command still runs. In a forked copy, where it is not a child, it may run.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Sends SIGHUP, to all processes of a command with a session of its own.
    pub(crate) fn hang_up(&mut self) {
        let pid = Pid::from_child(&self.child);
        if !self.has_ended() {
            let kill = if self.is_detached { kill_process_group } else { kill_process };
            let _ = kill(pid, Signal::HUP);
        }
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
        let process = Arc::new(Mutex::new(Process { child, is_detached: self.is_detached }));
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
}
