//! Waiting for a child without a signal handler, through a descriptor that becomes readable when the child
//! ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

/// A running child, and a descriptor that becomes readable when it ends.
///
/// Dropping it neither kills the child nor waits for it: a child that outlives its session is intended
/// (`nohup`).
#[derive(Debug)]
pub struct Watched {
    pid: Pid,
    end: OwnedFd,
    ended: Option<Ended>,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The child exited with this status.
    Exit(u8),
    /// A signal ended the child.
    Signal {
        /// The signal's number.
        number: i32,
        /// True when a core file was written.
        core_dumped: bool,
    },
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (None, Some(number)) => Self::Signal { number, core_dumped: status.core_dumped() },
            // Exit statuses have 8 bits on every Unix.
            (code, _) => Self::Exit((code.unwrap_or(255) & 0xff) as u8),
        }
    }
}

impl Watched {
    /// Takes over a child.
    pub fn new(child: Child) -> io::Result<Self> {
        Self::of_pid(Pid::from_child(&child))
    }

    /// Takes over the child with this process id, which nothing has waited for.
    pub(crate) fn of_pid(pid: Pid) -> io::Result<Self> {
        Ok(Self { pid, end: end_of(pid)?, ended: None })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// How the child ended; `None` while it runs.
    pub fn try_wait(&mut self) -> io::Result<Option<Ended>> {
        if self.ended.is_none() {
            self.ended = self.reap(WaitOptions::NOHANG)?;
        }
        Ok(self.ended)
    }

    /// Waits for the child to end.
    pub fn wait(&mut self) -> io::Result<Ended> {
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        // Without the flag the call returns when the child has ended.
        let ended = self.reap(WaitOptions::empty())?.ok_or(io::ErrorKind::WouldBlock)?;
        self.ended = Some(ended);
        Ok(ended)
    }

    fn reap(&self, options: WaitOptions) -> io::Result<Option<Ended>> {
        let waited = rustix::io::retry_on_intr(|| waitpid(Some(self.pid), options))?;
        Ok(waited.map(|(_, status)| ExitStatus::from_raw(status.as_raw()).into()))
    }

    /// Sends a signal to the child, or to its whole process group when `group` is set. Does nothing once the
    /// child has ended and been waited for.
    pub fn signal(&self, signal: Signal, group: bool) -> io::Result<()> {
        if self.ended.is_some() {
            return Ok(());
        }
        if group {
            kill_process_group(self.pid, signal)?
        } else {
            kill_process(self.pid, signal)?
        }
        Ok(())
    }
}

impl AsFd for Watched {
    /// Descriptor that is readable when the child has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

/// Returns a descriptor that becomes readable when the process with this id ends, child or not. No program
/// inherits it.
///
/// # Errors
/// The process does not exist any more.
#[cfg(target_os = "linux")]
pub fn end_of_process(process: Pid) -> io::Result<OwnedFd> {
    Ok(rustix::process::pidfd_open(process, rustix::process::PidfdFlags::NONBLOCK)?)
}

/// Returns a descriptor that becomes readable when the process with this id ends, child or not. Neither
/// programs nor forked copies of this process inherit it.
///
/// # Errors
/// The process does not exist any more.
#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "kqueue(2) can close descriptors that others own")]
pub fn end_of_process(process: Pid) -> io::Result<OwnedFd> {
    use rustix::event::kqueue::{Event, EventFilter, EventFlags, ProcessEvents, kevent, kqueue};
    let queue = kqueue()?;
    let exit = EventFilter::Proc { pid: process, flags: ProcessEvents::EXIT };
    let exit = [Event::new(exit, EventFlags::ADD, std::ptr::null_mut())];
    let mut none: [Event; 0] = [];
    // SAFETY: the event names a process, and no descriptor.
    unsafe { kevent(&queue, &exit, &mut none, Some(std::time::Duration::ZERO)) }?;
    Ok(queue)
}

#[cfg(not(target_os = "linux"))]
use end_by_thread as end_of;
#[cfg(target_os = "linux")]
use end_of_process as end_of;

/// Returns a pipe that a thread closes when the child with this id has ended. The thread does not reap the
/// child.
#[cfg(any(test, not(target_os = "linux")))]
fn end_by_thread(child: Pid) -> io::Result<OwnedFd> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let (reader, writer) = crate::fd::pipe()?;
    let waits = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // Fails if the child has been reaped already.
        let _ = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(child), options));
        drop(writer);
    };
    std::thread::Builder::new().name("child".to_owned()).spawn(waits)?;
    Ok(reader)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::Program;
    use rustix::event::{PollFd, PollFlags, poll};

    fn ended(script: &str) -> Ended {
        let child = Program::new("/bin/sh").arg("-c").arg(script).new_session().spawn().unwrap();
        let mut watched = Watched::new(child).unwrap();
        poll(&mut [PollFd::new(&watched, PollFlags::IN)], None).unwrap();
        watched.try_wait().unwrap().expect("a readable descriptor means that the child has ended")
    }

    #[test]
    fn exit_status_and_signal_are_distinguished() {
        assert_eq!(ended("exit 0"), Ended::Exit(0));
        assert_eq!(ended("exit 77"), Ended::Exit(77));
        assert_eq!(ended("kill -TERM $$"), Ended::Signal { number: 15, core_dumped: false });
    }

    #[test]
    fn thread_tells_of_the_end_and_leaves_the_child() {
        let mut child = Program::new("/bin/sh").arg("-c").arg("exec sleep 1000").spawn().unwrap();
        let end = end_by_thread(Pid::from_child(&child)).unwrap();
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&now)).unwrap(), 0);
        child.kill().unwrap();
        poll(&mut [PollFd::new(&end, PollFlags::IN)], None).unwrap();
        assert_eq!(Ended::from(child.wait().unwrap()), Ended::Signal { number: 9, core_dumped: false });
        let end = end_by_thread(Pid::from_child(&child)).unwrap();
        poll(&mut [PollFd::new(&end, PollFlags::IN)], None).unwrap();
    }

    #[test]
    fn signal_reaches_the_process_group() {
        let child = Program::new("/bin/sh").arg("-c").arg("sleep 1000; true").new_session().spawn().unwrap();
        let mut watched = Watched::new(child).unwrap();
        assert_eq!(watched.try_wait().unwrap(), None);
        watched.signal(Signal::KILL, true).unwrap();
        assert_eq!(watched.wait().unwrap(), Ended::Signal { number: 9, core_dumped: false });
        watched.signal(Signal::KILL, true).unwrap();
    }
}
