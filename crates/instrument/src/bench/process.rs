//! Programs that a run starts: their ends, their time limit, and their last words.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fault::Fault;

/// Starts a child that is written to and read from; its standard error is kept for [`said`].
///
/// # Errors
/// The program cannot be started.
pub(super) fn piped(command: &mut Command) -> Result<Child, Fault> {
    spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
}

/// Starts a child.
///
/// # Errors
/// The program cannot be started.
pub(super) fn spawn(command: &mut Command) -> Result<Child, Fault> {
    let started = command.spawn();
    started.map_err(|error| Fault::File { path: command.get_program().into(), error })
}

/// Reports that the standard streams of a child are missing.
pub(super) fn no_pipes() -> Fault {
    Fault::Client("it has no pipes".to_owned())
}

/// Reports that waiting for a child failed.
pub(super) fn waiting(error: std::io::Error) -> Fault {
    Fault::System { what: "waiting for a client".to_owned(), error }
}

/// Waits for a child.
///
/// # Errors
/// It has failed: its last words.
pub(super) fn finish(child: Child, limit: Duration) -> Result<(), Fault> {
    let guard = Guard::new(&child, limit);
    let done = child.wait_with_output().map_err(waiting)?;
    let is_late = guard.has_killed();
    drop(guard);
    if done.status.success() {
        return Ok(());
    }
    if is_late {
        return Err(Fault::Late("the client did not end in time"));
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(Fault::client(last_words(&said)))
}

/// The last line that says why a client has failed. The last one of `scp` names the files of the copy only.
fn last_words(said: &str) -> &str {
    let names_files =
        |line: &str| line.contains(": failed to upload file ") || line.contains(": failed to download file ");
    let lines = || said.lines().filter(|line| !line.trim().is_empty());
    lines().rfind(|line| !names_files(line)).or_else(|| lines().next_back()).unwrap_or_default()
}

/// Stops a client: with the signal that lets it remove what it has made, such as the process of its
/// `ProxyCommand`.
pub(super) fn kill(child: &mut Child) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let (Ok(None), Some(pid)) = (child.try_wait(), pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Waits for a child that was stopped; its last words.
pub(super) fn said(child: Child) -> String {
    let guard = Guard::new(&child, Duration::from_secs(5));
    let done = child.wait_with_output();
    drop(guard);
    let said = done.map(|done| String::from_utf8_lossy(&done.stderr).into_owned()).unwrap_or_default();
    let is_own = |line: &&str| !line.trim().is_empty() && !line.contains("Killed by signal");
    lh_client::sanitise(said.lines().rfind(is_own).unwrap_or_default().trim())
}

/// Kills a child that takes too long.
pub(super) struct Guard {
    done: std::sync::mpsc::Sender<()>,
    has_killed: Arc<AtomicBool>,
}

impl Guard {
    pub(super) fn new(child: &Child, limit: Duration) -> Self {
        let (done, over) = std::sync::mpsc::channel();
        let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let has_killed = Arc::new(AtomicBool::new(false));
        let kills = Arc::clone(&has_killed);
        std::thread::spawn(move || {
            if over.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
                && let Some(pid) = pid
            {
                kills.store(true, Ordering::SeqCst);
                // The child has not been waited for, so the number is still its own.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        });
        Self { done, has_killed }
    }

    /// Returns whether the child took too long.
    fn has_killed(&self) -> bool {
        self.has_killed.load(Ordering::SeqCst)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.done.send(());
    }
}

/// Processor time of all children that have ended, seconds.
pub(super) fn children_cpu() -> f64 {
    lh_sys::time::children_cpu().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_of_short_children_counts() {
        let before = children_cpu();
        // A few milliseconds.
        finish(Command::new("sh").args(["-c", "true"]).spawn().unwrap(), Duration::from_secs(30)).unwrap();
        assert!(children_cpu() > before);
    }

    #[test]
    fn client_that_takes_too_long_is_told_from_one_that_fails() {
        let run = |script: &str, limit| {
            let child = Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
            finish(child, limit).unwrap_err().to_string()
        };
        assert_eq!(run("exec sleep 60", Duration::from_millis(1)), "the client did not end in time");
        assert_eq!(run("exit 1", Duration::from_secs(60)), "it failed without a message");
        assert_eq!(run("echo why >&2; exit 1", Duration::from_secs(60)), "why");
        let copy = "echo \"scp: failed to upload file a to b\" >&2; exit 1";
        let full = format!("echo \"scp: write remote b: Failure\" >&2; {copy}");
        assert_eq!(run(&full, Duration::from_secs(60)), "scp: write remote b: Failure");
        assert_eq!(run(copy, Duration::from_secs(60)), "scp: failed to upload file a to b");
    }
}
