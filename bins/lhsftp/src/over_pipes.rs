//! A server at pipes: a program of this host (`-D`), or another `ssh` program (`-S`).

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read as _, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use lh_sftp::server::Backlog;
use lh_sftp_shell::{Carrier, Conversation};
use lh_sys::pipe::GrowingPipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Limit of bytes that wait for the program.
const PENDING: usize = 1 << 20;

/// Bytes that are read at once.
const READ: usize = 256 * 1024;

/// See the module documentation.
pub(crate) struct Pipes {
    child: Child,
    /// `None` once the program's input is closed.
    to: Option<GrowingPipe<ChildStdin>>,
    from: GrowingPipe<ChildStdout>,
    buffer: BytesMut,
    /// Bytes that the program has not read yet.
    pending: Backlog,
}

/// Why no program runs at pipes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The command line names no program.
    #[error("No program to run")]
    NoProgram,
    /// The program cannot be run.
    #[error("exec: {}: {}", .program.display(), lh_sys::errno_text(.error))]
    Exec {
        /// The program's name.
        program: OsString,
        /// The system's reason.
        error: io::Error,
    },
    /// The program was started without pipes.
    #[error("No pipes to the program")]
    NoPipes,
}

/// Starts a program with pipes.
///
/// # Errors
/// Why it does not run.
pub(crate) fn start(words: &[OsString]) -> Result<Pipes, StartError> {
    let (program, arguments) = words.split_first().ok_or(StartError::NoProgram)?;
    let reason = |error| StartError::Exec { program: program.clone(), error };
    let mut command = Command::new(program);
    command.arg0(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = lh_sys::spawn::spawn_like_execvp(&mut command).map_err(reason)?;
    let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(StartError::NoPipes);
    };
    lh_sys::fd::set_nonblocking(&to, true).map_err(reason)?;
    lh_sys::fd::set_nonblocking(&from, true).map_err(reason)?;
    let (to, from) = (GrowingPipe::new(to), GrowingPipe::new(from));
    let pending = Backlog::new(PENDING);
    Ok(Pipes { child, to: Some(to), from, buffer: BytesMut::new(), pending })
}

/// Writes to the program as much as the pipe takes. Returns false when the program has closed its input.
fn flush(backlog: &mut Backlog, to: &mut impl Write) -> bool {
    while !backlog.is_empty() {
        match to.write(backlog.rest()) {
            Ok(written) => backlog.advance(written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        }
    }
    true
}

impl Pipes {
    /// Reads the program's output. Returns false at its end.
    fn read(&mut self, conversation: &RefCell<Conversation>) -> bool {
        self.buffer.resize(READ, 0);
        match self.from.read(&mut self.buffer[..]) {
            Ok(0) => return false,
            Ok(read) => {
                let data = self.buffer.split_to(read).freeze();
                conversation.borrow_mut().received(data, Instant::now());
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(_) => return false,
        }
        true
    }
}

impl Carrier for Pipes {
    fn run(&mut self, conversation: &Rc<RefCell<Conversation>>) {
        let watch = conversation.borrow().watch();
        loop {
            conversation.borrow_mut().advance(&mut self.pending, Instant::now());
            let Some(to) = &mut self.to else { return };
            if !flush(&mut self.pending, to) {
                return conversation.borrow_mut().lose("Connection closed");
            }
            let (settled, console, deadline) = {
                let conversation = conversation.borrow();
                (conversation.settled(), conversation.wants_console(), conversation.next_deadline())
            };
            // The flush may have emptied the queue.
            if settled {
                return;
            }
            let mut fds = vec![PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN)];
            // A full queue waits for the pipe, an empty one for requests.
            let out = if self.pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            fds.push(PollFd::from_borrowed_fd(to.as_fd(), out));
            if let Some(signals) = watch.signals() {
                fds.push(PollFd::from_borrowed_fd(signals, PollFlags::IN));
            }
            if console {
                fds.push(PollFd::from_borrowed_fd(watch.console(), PollFlags::IN));
            }
            let timeout = deadline.map(|deadline| {
                let left = deadline.saturating_duration_since(Instant::now());
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
            });
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    let text = io::Error::from(error).to_string();
                    return conversation.borrow_mut().lose(&text);
                }
            }
            let readable = fds[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
            let woken = console && fds.last().is_some_and(|fd| !fd.revents().is_empty());
            drop(fds);
            if readable && !self.read(conversation) {
                return conversation.borrow_mut().lose("Connection closed");
            }
            let mut conversation = conversation.borrow_mut();
            conversation.look_for_signals();
            if woken {
                conversation.wake();
            }
        }
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        // Closing its input ends the program; an ssh may still send data to its server.
        self.to = None;
        let deadline = Instant::now() + std::time::Duration::from_secs(5);
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() >= deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_why_no_program_runs() {
        let text = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            start(&words).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(text(&[]), "No program to run");
        assert_eq!(text(&["/nosuch", "x"]), "exec: /nosuch: No such file or directory");
        assert_eq!(text(&["/dev/null"]), "exec: /dev/null: Permission denied");
    }
}
