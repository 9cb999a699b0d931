//! The end of sessions that outlive their tests.
//!
//! Sessions whose clients were killed wait for them (`ResumeGrace`) for minutes, also after their server
//! has been stopped. Their users' ids would be given to the next test's users meanwhile.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longest wait for the end of the processes.
const LIMIT: Duration = Duration::from_secs(5);

/// Ends the session processes of servers that log to a file below `dir`, and waits for it.
pub(crate) fn end_sessions(dir: &Path) {
    let sessions = || {
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
            let is_session =
                fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.starts_with(b"lhsshd-session"));
            let log = is_session.then(|| fs::read_link(entry.path().join("fd/2")))?.ok()?;
            log.starts_with(dir).then_some(pid)
        })
    };
    let deadline = Instant::now() + LIMIT;
    let mut signal = Signal::TERM;
    loop {
        let left: Vec<Pid> = sessions().collect();
        if left.is_empty() || Instant::now() >= deadline {
            return;
        }
        for pid in left {
            // It may have ended meanwhile.
            let _ = kill_process(pid, signal);
        }
        std::thread::sleep(Duration::from_millis(20));
        if Instant::now() + LIMIT / 2 > deadline {
            signal = Signal::KILL;
        }
    }
}
