//! A command at the server that runs for as long as this end wants it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use lh_client::{SessionSetup, Start};

use crate::command::sh;
use crate::fault::Fault;
use crate::shell::SHORT;
use crate::target::Target;
use crate::task::{Data, Opens, Task};

/// Why it is not known that a command has done its work.
#[derive(Debug)]
pub(crate) enum BadEnd {
    /// Its last words.
    Failed(String),
    /// The connection was lost, or it did not end in time.
    Unseen(String),
}

/// The command, on a connection of its own. The connection is closed when this is dropped, and the command
/// finds the end of its input.
pub(crate) struct Held {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), BadEnd>>>,
}

impl Held {
    /// Starts a script of `sh` with this input, which prints a line that begins with `ready`; returns this
    /// line as well.
    ///
    /// # Errors
    /// The connection fails, the script ends first (the last line of its error output), or does not print
    /// that line in time (`late`).
    pub(crate) fn start(
        target: &Target,
        script: String,
        input: Vec<u8>,
        late: &'static str,
    ) -> Result<(Self, String), Fault> {
        let stop = Arc::new(AtomicBool::new(false));
        let (send, receive) = channel();
        let (ends, target) = (Arc::clone(&stop), target.clone());
        let thread = std::thread::spawn(move || run(&target, &script, input, ends, &send));
        let held = Self { stop, thread: Some(thread) };
        let line = receive.recv_timeout(SHORT + Duration::from_secs(30)).map_err(|_| Fault::Late(late))??;
        Ok((held, line))
    }

    /// Ends the command, as dropping it does.
    ///
    /// # Errors
    /// It has failed, or its end was not seen.
    pub(crate) fn end(mut self) -> Result<(), BadEnd> {
        self.join()
    }

    fn join(&mut self) -> Result<(), BadEnd> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(Ok(()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

/// Runs the script until `ends`; sends its line, or why there is none. Returns why it did not end well.
fn run(
    target: &Target,
    script: &str,
    input: Vec<u8>,
    ends: Arc<AtomicBool>,
    send: &Sender<Result<String, Fault>>,
) -> Result<(), BadEnd> {
    let mut remote = match target.connect(&[]) {
        Ok(remote) => remote,
        Err(failure) => {
            let _ = send.send(Err(failure.fault));
            return Ok(());
        }
    };
    let told = send.clone();
    let shown = remote.run(Task {
        opens: Opens::Session(SessionSetup::new(Start::Exec(sh(script)))),
        data: Data::Hold,
        input,
        sample: None,
        ping: None,
        limit: SHORT,
        hold: Some(Box::new(move |out| {
            if let Some(line) = ready_line(out) {
                let _ = told.send(Ok(line));
            }
            !ends.load(Ordering::Relaxed)
        })),
        comparison: None,
    });
    let said = lh_client::sanitise(shown.err_text().trim());
    let last = said.lines().next_back().unwrap_or_default().to_owned();
    let words = Some(last).filter(|last| !last.is_empty()).or_else(|| shown.failure.clone());
    let words = words.unwrap_or_else(|| "a command at the server ended without a message".to_owned());
    let _ = send.send(Err(Fault::Server(words.clone())));
    remote.client.close();
    match (shown.failure, shown.status) {
        (Some(why), _) => Err(BadEnd::Unseen(why)),
        (None, Some(status)) if status != 0 => Err(BadEnd::Failed(words)),
        (None, _) => Ok(()),
    }
}

/// The line of the script. Start-up files of the shell may print others before it, and what has arrived may
/// end within a line.
fn ready_line(out: &[u8]) -> Option<String> {
    let complete = out.get(..out.iter().rposition(|byte| *byte == b'\n')?)?;
    let text = String::from_utf8_lossy(complete);
    let line = text.lines().find(|line| line.split_whitespace().next() == Some("ready"))?;
    Some(lh_client::sanitise(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_the_script_is_told_from_those_of_the_shell() {
        let told = |out: &str| ready_line(out.as_bytes());
        assert_eq!(told("ready\n").as_deref(), Some("ready"));
        assert_eq!(told("Welcome\nready 10.0.0.1 22 perl\n").as_deref(), Some("ready 10.0.0.1 22 perl"));
        for other in ["", "Welcome\n", "readyness\n", "Welcome\nready 10.0.0.1 2", "ready"] {
            assert_eq!(told(other), None, "{other}");
        }
    }
}
