//! The processes of commands that carry connections, with the user's terminal or without.

use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lh_sys::spawn::spawn_detached;
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

    /// Sends SIGHUP, to all processes of a command with a session of its own.
    pub(crate) fn hang_up(&mut self) {
        let pid = Pid::from_child(&self.child);
        // In a forked copy, `try_wait` fails: the command is not its child and may still run.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let kill = if self.is_detached { kill_process_group } else { kill_process };
            let _ = kill(pid, Signal::HUP);
        }
    }
}

/// Locks it, also where a thread has panicked.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Commands without a terminal, for a client that ends: a command that asks for a password would read what
/// the user types for the shell. Their messages are dropped, because they would come after the prompt.
#[derive(Debug, Clone, Default)]
pub struct Detached(Arc<Mutex<DetachedCommands>>);

#[derive(Debug, Default)]
struct DetachedCommands {
    started: Vec<Arc<Mutex<Process>>>,
    is_over: bool,
}

impl Detached {
    /// Starts a command, unless they have been hung up.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Arc<Mutex<Process>>> {
        // Held while the command starts, so that none is missed.
        let mut commands = locked(&self.0);
        if commands.is_over {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let child = spawn_detached(command.env("SSH_ASKPASS_REQUIRE", "never").stderr(Stdio::null()))?;
        let process = Arc::new(Mutex::new(Process { child, is_detached: true }));
        commands.started.push(Arc::clone(&process));
        Ok(process)
    }

    /// Sends SIGHUP to all commands that run, whichever thread uses them. No other is started.
    pub(crate) fn hang_up(&self) {
        let mut commands = locked(&self.0);
        commands.is_over = true;
        commands.started.drain(..).for_each(|process| locked(&process).hang_up());
    }
}
