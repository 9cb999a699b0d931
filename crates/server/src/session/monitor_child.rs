//! The monitor's two child processes, and how they end.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use crate::monitor_ipc::MonitorSocket;

/// Longest time that a process may take to end after closing its socket.
const EXIT_WAIT: Duration = Duration::from_secs(5);
/// Longest time that a killed process may take to end.
const KILLED: Duration = Duration::from_secs(1);
/// A child process of the monitor, and the socket to it.
pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) ipc: MonitorSocket,
}

/// Kills a process that has completed its work, and reaps it.
pub(super) fn end(pid: Pid) {
    let _ = kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

/// Waits for a process that is about to end, for a limited time: even a killed process does not end while a
/// thread of it is blocked in a call on a hanging file system. By then the connection is closed in it, and
/// init reaps it when the call returns.
pub(super) fn bury(pid: Pid) -> Option<WaitStatus> {
    let mut options = WaitOptions::empty();
    if let Ok(ending) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        let ends = |within: Duration| {
            let tv_sec = i64::try_from(within.as_secs()).unwrap_or(1);
            poll(&mut [PollFd::new(&ending, PollFlags::IN)], Some(&Timespec { tv_sec, tv_nsec: 0 })) != Ok(0)
        };
        if !ends(EXIT_WAIT) {
            let _ = kill_process(pid, Signal::KILL);
            if !ends(KILLED) {
                options = WaitOptions::NOHANG;
            }
        }
    }
    rustix::io::retry_on_intr(|| waitpid(Some(pid), options)).ok().flatten().map(|(_, status)| status)
}
