//! One end of a measurement: a supervisor process that starts the programs of that end, adopts and reaps all
//! their descendants, and reports their total usage.
//!
//! As a subreaper it becomes the parent of every orphan below it, so no process of the end escapes the count.
//! The supervisor's own work is not counted.

pub mod client;
pub mod counted;
pub mod flow;
pub mod server;

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait,
};

use crate::usage::{Usage, descendants};

/// Report of a supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Wall-clock time from the start of the program to its end, all repetitions, microseconds; 0 for
    /// servers.
    pub wall_us: u64,
    /// Usage of the processes.
    pub usage: Usage,
    /// Bytes through a counted pipe.
    pub moved: Moved,
}

/// Bytes through a client's standard input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Total bytes.
    pub bytes: u64,
    /// Rate in the second half of the time, bytes per second.
    pub steady: u64,
}

impl Report {
    /// The report as lines `key value`.
    pub fn to_text(self) -> String {
        let mut text = String::new();
        for (key, value) in [
            ("wall_us", self.wall_us),
            ("user_us", self.usage.user_us),
            ("system_us", self.usage.system_us),
            ("peak_kib", self.usage.peak_kib),
            ("moved", self.moved.bytes),
            ("steady", self.moved.steady),
        ] {
            let _ = writeln!(text, "{key} {value}");
        }
        text
    }

    /// Parses the output of [`to_text`](Self::to_text); `None` when a line is missing or invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let get = |key: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?.parse().ok()
        };
        let usage =
            Usage { user_us: get("user_us")?, system_us: get("system_us")?, peak_kib: get("peak_kib")? };
        let moved = Moved { bytes: get("moved")?, steady: get("steady")? };
        Some(Self { wall_us: get("wall_us")?, usage, moved })
    }

    /// Reads a report from a file.
    ///
    /// # Errors
    /// The file is missing or incomplete.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).ok_or_else(|| format!("{}: not a report: {text}", path.display()))
    }
}

/// Makes this process the parent of every orphan below it.
fn adopt_orphans() -> Result<(), String> {
    set_child_subreaper(Some(getpid())).map_err(|error| format!("subreaper: {error}"))
}

/// Reaps one ended child; `None` while all of them run or when there is none.
fn reap_one() -> Option<(Pid, WaitStatus)> {
    wait(WaitOptions::NOHANG).ok().flatten()
}

/// Waits for all descendants to end; kills those that still run after `bound`.
fn reap_all(bound: Duration) {
    let deadline = Instant::now() + bound;
    let mut pause = Duration::from_micros(500);
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => continue,
            Ok(None) => {}
            // No children left.
            Err(_) => return,
        }
        if Instant::now() >= deadline {
            signal_all(Signal::KILL);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn signal_all(signal: Signal) {
    for pid in descendants(std::process::id()) {
        send(pid, signal);
    }
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Options before `--`, and the command after it.
pub(crate) struct EndArgs<'a> {
    options: &'a [String],
    /// Program and arguments.
    pub(crate) command: &'a [String],
}

impl<'a> EndArgs<'a> {
    pub(crate) fn parse(args: &'a [String]) -> Result<Self, String> {
        let at = args.iter().position(|arg| arg == "--").ok_or("no -- before the command")?;
        let (options, command) = args.split_at(at);
        Ok(Self { options, command: command.get(1..).unwrap_or_default() })
    }

    /// Value of an option.
    pub(crate) fn value(&self, name: &str) -> Option<&'a str> {
        let at = self.options.iter().position(|option| option == name)?;
        self.options.get(at + 1).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_round_trip_through_text() {
        let usage = Usage { user_us: 1, system_us: 2, peak_kib: 3 };
        let report = Report { wall_us: 4, usage, moved: Moved { bytes: 5, steady: 6 } };
        assert_eq!(Report::parse(&report.to_text()), Some(report));
        assert_eq!(Report::parse("wall_us 4\nuser_us 1\n"), None);
        assert_eq!(Report::parse("wall_us x\nuser_us 1\nsystem_us 1\npeak_kib 1\n"), None);
    }

    #[test]
    fn options_end_at_the_dashes() {
        let args = ["--report", "r", "--", "prog", "--report", "x"].map(str::to_owned);
        let parsed = EndArgs::parse(&args).unwrap();
        assert_eq!(parsed.value("--report"), Some("r"));
        assert_eq!(parsed.value("--stdin"), None);
        assert_eq!(parsed.command, ["prog", "--report", "x"]);
        assert!(EndArgs::parse(&[]).is_err());
    }
}
