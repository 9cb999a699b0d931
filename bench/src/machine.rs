//! The machine and the programs of a measurement.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The machine and the programs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: f64,
    pub(crate) kernel: String,
    pub(crate) date: String,
    /// Description of the user of the sessions.
    pub(crate) user: &'static str,
    /// Load averages before the measurement.
    pub(crate) load: String,
    /// Load averages after the measurement.
    pub(crate) load_after: String,
    /// Commit of the working tree.
    pub(crate) commit: String,
    /// Contestant and version.
    pub(crate) versions: Vec<(String, String)>,
}

impl Machine {
    pub(crate) fn inspect(versions: Vec<(String, String)>, user: &'static str) -> Self {
        let meminfo = read("/proc/meminfo");
        Self {
            cpu: cpu_model(&read("/proc/cpuinfo")),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: crate::usage::kib(&meminfo, "MemTotal").unwrap_or(0) as f64 / f64::from(1 << 20),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            date: first_line_of(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])),
            load: load(),
            user,
            load_after: String::new(),
            commit: first_line_of(Command::new("git").args(["describe", "--always", "--dirty"])),
            versions,
        }
    }

    /// True when the load of the last minute was low.
    pub(crate) fn is_quiet(&self) -> bool {
        self.load.split(' ').next().and_then(|load| load.parse::<f64>().ok()).is_some_and(|load| load < 0.5)
    }

    pub(crate) fn finish(&mut self) {
        self.load_after = load();
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn load() -> String {
    read("/proc/loadavg").split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, name)| name.trim()).to_owned()
}

fn first_line_of(command: &mut Command) -> String {
    let out = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    out.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default()
}

/// First line of a program's version output.
pub(crate) fn version(program: &Path, flag: &str) -> String {
    let Ok(out) = Command::new(program).arg(flag).stdin(Stdio::null()).output() else { return String::new() };
    let text = [out.stdout, out.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_model_is_parsed() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n"), "Some CPU @ 2 GHz");
        assert_eq!(cpu_model(""), "unknown");
    }

    #[test]
    fn quiet_machine_is_judged_by_the_last_minute() {
        let with = |load: &str| Machine { load: load.to_owned(), ..Machine::default() }.is_quiet();
        assert!(with("0.10 2.00 3.00"));
        assert!(!with("1.10 0.00 0.00"));
        assert!(!with(""));
    }
}
