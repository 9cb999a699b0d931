//! The two processes that the monitor has made, and their ends.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use crate::monitor_ipc::MonitorSocket;

/// How long a process that has closed its socket may take to end.
const FUNERAL: Duration = Duration::from_secs(5);
/// How long a killed process may take to end.
const KILLED: Duration = Duration::from_secs(1);
/// One of the other two processes.
pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) ipc: MonitorSocket,
}

/// Ends a process that has nothing left to do.
pub(super) fn end(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

/// Waits for a process that is about to end, but not for ever: not even a killed one ends while a thread of it is in a call on a
/// file system that hangs. Nothing of the connection is open in it by then, and init reaps it when the call returns.
pub(super) fn bury(pid: Pid) -> Option<WaitStatus> {
    let mut options = WaitOptions::empty();
    if let Ok(ending) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        let ends = |within: Duration| {
            let tv_sec = i64::try_from(within.as_secs()).unwrap_or(1);
            poll(&mut [PollFd::new(&ending, PollFlags::IN)], Some(&Timespec { tv_sec, tv_nsec: 0 })) != Ok(0)
        };
        if !ends(FUNERAL) {
            let _ = kill_process(pid, Signal::KILL);
            if !ends(KILLED) {
                options = WaitOptions::NOHANG;
            }
        }
    }
    rustix::io::retry_on_intr(|| waitpid(Some(pid), options)).ok().flatten().map(|(_, status)| status)
}
