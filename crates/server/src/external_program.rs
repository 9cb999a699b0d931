//! Runs one of the administrator's programs and reads its output, with bounds on size and time.
//!
//! The program is started directly, not by a shell, in the directory `/` and a session of its own, with only
//! the environment that the caller gives. Callers check with [`crate::strict`] that only trusted users can
//! replace it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lh_sys::child::{Ended, Watched};
use lh_sys::ids::Ids;
use lh_sys::spawn::Program;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

/// Longest time between setting `stop` and killing the program.
const STOP_WITHIN: Duration = Duration::from_millis(50);

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Which output of a program is read, and until when.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reads {
    /// Standard output until every write end is closed. The program is ended when it writes more than `most`
    /// bytes.
    Output { most: usize },
    /// Standard error until the program has ended; the first `kept` bytes are kept. Processes that it leaves
    /// running are killed.
    Errors { kept: usize },
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Ended(Ended),
    /// The deadline passed.
    TooLong,
    /// The program wrote more than the limit.
    TooMuch,
    /// The caller set `stop`.
    Stopped,
}

/// A program that has not been started.
pub(crate) struct ExternalProgram<'a> {
    /// Absolute path of the program.
    pub(crate) path: &'a str,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The user that runs the program, where it is not this process's user.
    pub(crate) ids: Option<Ids>,
    pub(crate) reads: Reads,
    pub(crate) deadline: Option<Instant>,
    /// When this is set, the program is killed.
    pub(crate) stop: Option<&'a AtomicBool>,
}

impl ExternalProgram<'_> {
    /// Runs the program. Returns its output and how it ended.
    ///
    /// # Errors
    /// The program cannot be started, or waiting for it fails.
    pub(crate) fn run(self) -> io::Result<(Vec<u8>, End)> {
        let Self { path, arguments, environment, ids, reads, deadline, stop } = self;
        let (pipe, theirs) = lh_sys::fd::pipe()?;
        lh_sys::fd::set_nonblocking(&pipe, true)?;
        let (null, other) = (lh_sys::fd::null()?, lh_sys::fd::null()?);
        let program = Program::new(path).env(environment).dir("/").new_session();
        let mut program = match reads {
            Reads::Output { .. } => program.stdio(null, theirs, other),
            Reads::Errors { .. } => program.stdio(null, other, theirs),
        };
        if let Some(ids) = ids {
            program = program.ids(ids);
        }
        let child = arguments.iter().fold(program, Program::arg).spawn()?;
        let group = Pid::from_child(&child);
        let child = Watched::new(child).inspect_err(|_| {
            let _ = kill_process_group(group, Signal::KILL);
        })?;
        let mut running = Running { child, pipe, reads, read: Vec::new() };
        let end = running.wait(deadline, stop);
        if !matches!(end, Ok(End::Ended(_))) {
            let _ = running.child.signal(Signal::KILL, true);
            let _ = running.child.wait();
        }
        Ok((running.read, end?))
    }
}

/// Whether a pipe can deliver more.
#[derive(PartialEq, Eq)]
enum Pipe {
    Open,
    Closed,
    Full,
}

struct Running {
    child: Watched,
    pipe: OwnedFd,
    reads: Reads,
    read: Vec<u8>,
}

impl Running {
    /// Reads the output until the program has ended.
    fn wait(&mut self, deadline: Option<Instant>, stop: Option<&AtomicBool>) -> io::Result<End> {
        let mut state = Pipe::Open;
        loop {
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Ok(End::Stopped);
            }
            // Checked before the pipe is read, so that everything written before the end is read.
            let has_ended = poll(&mut [PollFd::new(&self.child, PollFlags::IN)], Some(&NO_TIME)) == Ok(1);
            if state == Pipe::Open {
                state = self.read_some();
            }
            match self.reads {
                _ if state == Pipe::Full => return Ok(End::TooMuch),
                Reads::Output { .. } if has_ended && state == Pipe::Closed => {
                    return self.child.wait().map(End::Ended);
                }
                Reads::Errors { .. } if has_ended => {
                    // The process id cannot be reused until the child is waited for.
                    let _ = self.child.signal(Signal::KILL, true);
                    return self.child.wait().map(End::Ended);
                }
                Reads::Output { .. } | Reads::Errors { .. } => {}
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(End::TooLong);
            }
            let slice = stop.map(|_| STOP_WITHIN);
            let timeout = left.into_iter().chain(slice).min().map(|time| Timespec {
                tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: time.subsec_nanos().into(),
            });
            let mut fds = Vec::with_capacity(2);
            fds.extend((!has_ended).then(|| PollFd::new(&self.child, PollFlags::IN)));
            fds.extend((state == Pipe::Open).then(|| PollFd::new(&self.pipe, PollFlags::IN)));
            match poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads the bytes that are available.
    fn read_some(&mut self) -> Pipe {
        let mut chunk = [0; 16 * 1024];
        // More than a pipe holds. The bound ends the loop where a process that outlives the program keeps
        // writing.
        for _ in 0..16 {
            match rustix::io::read(&self.pipe, &mut chunk) {
                Ok(0) => return Pipe::Closed,
                Ok(n) => {
                    let bytes = chunk.get(..n).unwrap_or_default();
                    match self.reads {
                        Reads::Output { most } if self.read.len() + n > most => return Pipe::Full,
                        Reads::Output { .. } => self.read.extend_from_slice(bytes),
                        Reads::Errors { kept } => {
                            let left = kept.saturating_sub(self.read.len());
                            self.read.extend_from_slice(bytes.get(..left).unwrap_or(bytes));
                        }
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Pipe::Open,
                Err(_) => return Pipe::Closed,
            }
        }
        Pipe::Open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, reads: Reads) -> (String, End) {
        let program = ExternalProgram {
            path: "/bin/sh",
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            ids: None,
            reads,
            deadline: Some(Instant::now() + Duration::from_secs(600)),
            stop: None,
        };
        let (read, end) = program.run().unwrap();
        (String::from_utf8(read).unwrap(), end)
    }

    const DONE: End = End::Ended(Ended::Exit(0));

    #[test]
    fn output_is_read_until_nobody_can_write() {
        let reads = Reads::Output { most: 10 };
        // A background process writes the second half after the program has ended.
        assert_eq!(run("echo 1; (sleep 0.1; echo 2) &", reads), ("1\n2\n".to_owned(), DONE));
        assert_eq!(run("echo 12345678901; exit 3", reads).1, End::TooMuch);
        assert_eq!(run("exec >&-; sleep 0.1; exit 3", reads), (String::new(), End::Ended(Ended::Exit(3))));
    }

    #[test]
    fn errors_are_read_until_the_program_ends() {
        let reads = Reads::Errors { kept: 4 };
        assert_eq!(run("sleep 1000 & echo 12345678 >&2", reads), ("1234".to_owned(), DONE));
        assert_eq!(run("echo out", reads), (String::new(), DONE));
    }
}
