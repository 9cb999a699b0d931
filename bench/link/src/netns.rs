//! Network namespaces: created and removed with `ip netns`, entered by threads.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Prefix of the names of our namespaces; the process id of their creator and a serial number follow.
pub const PREFIX: &str = "lhwan-";

/// Runs a program and returns its output, or its error message.
pub(crate) fn run(argv: &[&str]) -> Result<String, String> {
    let shown = argv.join(" ");
    let (program, args) = argv.split_first().ok_or("no program")?;
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{shown}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// Runs `work` on a new thread inside the namespace. Descriptors opened there belong to it permanently.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> io::Result<T> + Send) -> Result<T, String> {
    let enter = || {
        let file = File::open(Path::new("/run/netns").join(name))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        work()
    };
    std::thread::scope(|scope| match scope.spawn(enter).join() {
        Ok(result) => result.map_err(|error| format!("namespace {name}: {error}")),
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Processes inside a namespace.
fn pids(name: &str) -> Vec<Pid> {
    let text = run(&["ip", "netns", "pids", name]).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok().and_then(Pid::from_raw)).collect()
}

/// Ends every process inside a namespace: with SIGTERM, after a second with SIGKILL.
pub fn end_processes(name: &str) {
    let start = Instant::now();
    let mut signal = Signal::TERM;
    loop {
        let left = pids(name);
        if left.is_empty() || start.elapsed() > Duration::from_secs(5) {
            return;
        }
        for pid in left {
            // The process may have ended in the meantime.
            let _ = kill_process(pid, signal);
        }
        std::thread::sleep(Duration::from_millis(20));
        if start.elapsed() > Duration::from_secs(1) {
            signal = Signal::KILL;
        }
    }
}

/// Ends the processes in a namespace and removes it.
pub fn remove(name: &str) -> Result<(), String> {
    end_processes(name);
    run(&["ip", "netns", "delete", name]).map(drop)
}

/// Removes namespaces of processes that were killed before they could clean up.
pub fn remove_stale() {
    let Ok(entries) = fs::read_dir("/run/netns") else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let Some(owner) = owner.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if !Path::new(&format!("/proc/{owner}")).exists() {
            let _ = remove(&name);
        }
    }
}

/// True when a process in the namespace listens on TCP.
pub fn listens(name: &str) -> bool {
    within(name, || {
        let four = fs::read_to_string("/proc/thread-self/net/tcp")?;
        let six = fs::read_to_string("/proc/thread-self/net/tcp6").unwrap_or_default();
        Ok(has_listener(&four) || has_listener(&six))
    })
    .unwrap_or(false)
}

/// Looks for state 0A in the fourth column of `/proc/net/tcp`.
fn has_listener(table: &str) -> bool {
    table.lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some("0A"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_detected() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue\n";
        let open = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n";
        let busy = "   0: 0100007F:1F90 0100007F:0A0A 01 00000000:00000000\n";
        assert!(has_listener(&format!("{head}{busy}{open}")));
        assert!(!has_listener(&format!("{head}{busy}")));
        assert!(!has_listener(""));
    }
}
