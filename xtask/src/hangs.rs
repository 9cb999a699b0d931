//! Ends processes that hang, and says what they waited for.

use std::fmt::Write as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::workspace::{read_back, start_captured};

/// Time after which a test executable or a step beside others is killed, so that what hangs fails under its
/// name and not as a run that takes too long. On two busy cores the longest executable takes a quarter of
/// that, the longest step two thirds.
pub(crate) const LIMIT: Duration = Duration::from_secs(1500);

/// Interval of the message that a process is still running.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs a command to its end, as [`wait`] does. Returns its status and its output.
///
/// # Errors
/// It cannot be started or killed, or its output cannot be read.
pub(crate) fn output(
    name: &str,
    command: &mut Command,
    limit: Duration,
) -> Result<(ExitStatus, String), String> {
    let failed = |error: std::io::Error| error.to_string();
    let (mut child, log) = start_captured(command.stdin(Stdio::null())).map_err(failed)?;
    let status = wait(name, &mut child, limit)?;
    let output = read_back(log).map_err(failed)?;
    Ok((status, String::from_utf8_lossy(&output).into_owned()))
}

/// Waits until a process ends. After `limit` it kills the process and all that it has started, and prints
/// what their threads waited for.
///
/// # Errors
/// It cannot be killed: a thread waits in the kernel where no signal reaches it.
pub(crate) fn wait(name: &str, child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let start = Instant::now();
    let mut told = PATIENCE;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        if start.elapsed() > limit {
            let (status, waits) = kill(child)?;
            println!("tests: {name} was killed after {} s; its threads:\n{waits}", limit.as_secs());
            return Ok(status);
        }
        if start.elapsed() > told {
            println!("tests: {name} is still running after {} s", told.as_secs());
            told += PATIENCE;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills a process and all that it has started. Returns what their threads waited for.
///
/// # Errors
/// It does not end: a thread waits in the kernel where no signal reaches it.
fn kill(child: &mut Child) -> Result<(ExitStatus, String), String> {
    let pids = descendants(child.id());
    let waits: String = pids.iter().map(|&pid| waits(pid)).collect();
    let pids = pids.iter().map(u32::to_string);
    // Ignored: some may have ended meanwhile.
    let _ = Command::new("kill").arg("-KILL").args(pids).stderr(Stdio::null()).status();
    match within(child, Duration::from_secs(10))? {
        Some(status) => Ok((status, waits)),
        None => Err(format!("cannot be killed; its threads:\n{waits}")),
    }
}

/// Returns a process and all that it and its children have started, as far as their parents still run.
fn descendants(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let children =
            threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
        let children: Vec<u32> = children
            .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect();
        found.extend(children);
        at += 1;
    }
    found
}

/// Waits until a process ends, for this time at most.
fn within(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>, String> {
    let end = Instant::now() + limit;
    loop {
        let status = child.try_wait().map_err(|error| error.to_string())?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Describes what the threads of a process wait for: each thread's name, of a thread that runs a test the
/// first 15 characters of the test's, and the function of the kernel; and their calls, where there is a
/// debugger that may look.
fn waits(pid: u32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let mut text = format!("process {pid}: {}\n", line.trim_end());
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for thread in threads {
        let read = |name| std::fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let _ = writeln!(text, "  {} waits in {}", read("comm").trim_end(), read("wchan"));
    }
    text + &calls(pid).unwrap_or_default()
}

/// Returns the calls of a process's threads.
fn calls(pid: u32) -> Option<String> {
    let mut debugger = Command::new("gdb");
    debugger.args(["-batch", "-nx", "-p", &pid.to_string(), "-ex", "thread apply all backtrace 25"]);
    let (mut child, log) = start_captured(debugger.stdin(Stdio::null())).ok()?;
    // It waits itself for a thread that no signal reaches.
    if within(&mut child, Duration::from_secs(60)).ok()?.is_none() {
        let _ = child.kill();
    }
    read_back(log).ok().map(|output| String::from_utf8_lossy(&output).into_owned())
}

#[cfg(test)]
mod tests {
    use lh_interop::eventually;

    use super::*;

    #[test]
    fn child_processes_are_killed_too() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sh -c 'sleep 100000; exit' & wait"]);
        let mut child = shell.spawn().unwrap();
        eventually("two processes below it", || descendants(child.id()).len() == 3);
        let started = descendants(child.id());
        let (status, waits) = kill(&mut child).unwrap();
        assert!(!status.success() && waits.contains("\n  sh waits in "), "{status} {waits}");
        assert!(waits.contains(": sleep 100000\n  sleep waits in "), "{waits}");
        let has_ended = |pid: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.is_empty() || status.contains("State:\tZ")
        };
        eventually("all have ended", || started.iter().all(has_ended));
    }
}
