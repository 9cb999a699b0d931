//! Resource use of running processes, and stopping and continuing them.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Resource use of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Open descriptors.
    pub descriptors: usize,
    /// Resident memory, KiB.
    pub kib: usize,
}

/// Returns the resource use of a process; zeros when it is gone.
pub fn held(pid: u32) -> Held {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib = line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Held { descriptors, kib }
}

/// Returns all descendants of a process.
pub fn below(pid: u32) -> Vec<u32> {
    // Each thread has children of its own.
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let text: String =
        tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok()).collect();
    let mut all: Vec<u32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    for child in all.clone() {
        all.extend(below(child));
    }
    all
}

/// Returns a process and all its descendants.
pub fn family(pid: u32) -> Vec<u32> {
    [vec![pid], below(pid)].concat()
}

/// Stops and continues processes. All have stopped before any continues, so system calls that a stop
/// interrupts (signal(7)) are interrupted.
pub fn stop_and_continue(pids: &[u32]) {
    stop(pids);
    signal(pids, Signal::CONT);
}

/// Stops these processes with SIGSTOP, and waits until they have stopped.
pub fn stop(pids: &[u32]) {
    // In /proc/PID/stat, the state follows the name in parentheses.
    let runs = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['T', 'Z', 'X']))
    };
    signal(pids, Signal::STOP);
    crate::eventually("all have stopped", || !pids.iter().any(runs));
}

/// Sends a signal to each of these processes, as far as they have not ended.
pub fn signal(pids: &[u32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)) {
        let _ = kill_process(pid, signal);
    }
}

/// Returns the number of times that this process was stopped and continued since the first call of this
/// function.
///
/// The kernel reports neither by a signal that could be caught. But it interrupts a call on a socket with a
/// timeout (signal(7)).
pub fn stops_of_this_process() -> u64 {
    static STOPS: OnceLock<&AtomicU64> = OnceLock::new();
    let stops = STOPS.get_or_init(|| {
        let stops: &AtomicU64 = Box::leak(Box::default());
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        silent.set_read_timeout(Some(Duration::from_secs(3600))).unwrap();
        std::thread::spawn(move || {
            loop {
                if silent.recv(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::Interrupted) {
                    stops.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        stops
    });
    stops.load(Ordering::Relaxed)
}

/// Returns the number in a line of `/proc/PID/status`, by the line's first word: `VmHWM:` is the peak of
/// resident memory, KiB.
pub fn status(pid: u32, line: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let rest = text.lines().find_map(|words| words.strip_prefix(line))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// Returns the highest peak of resident memory among a process and its descendants, MiB.
pub fn peak_mib(pid: u32) -> u64 {
    let peak = |pid: &u32| status(*pid, "VmHWM:");
    family(pid).iter().filter_map(peak).max().unwrap_or_default() / 1024
}
