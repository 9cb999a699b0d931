//! Usage of processes: CPU time and memory.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// CPU time and peak memory of a set of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time in user mode, microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, microseconds.
    pub system_us: u64,
    /// Resident memory of the largest single process at its peak (VmHWM), KiB.
    pub peak_kib: u64,
}

impl Usage {
    /// Usage of all descendants that have ended and been reaped, by this process or by a parent in between.
    ///
    /// # Errors
    /// The kernel reports none.
    pub fn of_children() -> Result<Self, String> {
        Self::of(UsageWho::RUSAGE_CHILDREN)
    }

    /// Usage of this process so far, from before it executed this program as well.
    ///
    /// # Errors
    /// The kernel reports none.
    pub fn of_self() -> Result<Self, String> {
        Self::of(UsageWho::RUSAGE_SELF)
    }

    fn of(who: UsageWho) -> Result<Self, String> {
        let usage = getrusage(who).map_err(|error| format!("getrusage: {error}"))?;
        Ok(Self {
            user_us: micros(usage.user_time()),
            system_us: micros(usage.system_time()),
            peak_kib: u64::try_from(usage.max_rss()).unwrap_or(0),
        })
    }

    /// CPU time of both modes, microseconds.
    pub const fn cpu_us(&self) -> u64 {
        self.user_us + self.system_us
    }

    /// Subtracts `us` microseconds that were spent before the measurement, from both modes in proportion.
    #[must_use]
    pub fn without(self, us: u64) -> Self {
        let total = self.cpu_us();
        let left = total.saturating_sub(us);
        let user_us = (self.user_us * left).checked_div(total).unwrap_or(0);
        Self { user_us, system_us: left - user_us, ..self }
    }
}

fn micros(time: TimeVal) -> u64 {
    u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec()).unwrap_or(0)
}

/// CPU time of all threads of a running process so far, microseconds, from `schedstat`, which counts
/// nanoseconds.
pub fn so_far_us(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let text = threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
    text.filter_map(|text| schedstat_ns(&text)).sum::<u64>() / 1000
}

/// Number of times that any thread of a running process has slept so far (voluntary context switches).
pub fn sleeps(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let text = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
    text.filter_map(|text| voluntary_switches(&text)).sum()
}

/// The voluntary context switches in a `status`.
fn voluntary_switches(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
}

/// CPU time, the first number of a `schedstat`, nanoseconds.
pub fn schedstat_ns(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The value of a line `Key:   123 kB` of `/proc/PID/status` or `smaps_rollup`, KiB.
pub fn kib(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    rest.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The parent in a `/proc/PID/stat`, whose second field may contain blanks and brackets.
pub fn parent_of(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// All running processes below `root`, without it.
pub fn descendants(root: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            Some((pid, parent_of(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
        })
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.remove(0);
    found
}

/// Memory of running processes at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Sum of the proportional set sizes, KiB: pages shared by *n* processes count one *n*-th each.
    pub pss_kib: u64,
    /// Sum of the resident set sizes, KiB.
    pub rss_kib: u64,
    /// Sum of the private pages, KiB, which are freed when the processes end.
    pub private_kib: u64,
}

impl Memory {
    /// The sum over `pids`; `None` where one of them cannot be inspected.
    pub fn of(pids: &[u32]) -> Option<Self> {
        let mut sum = Self::default();
        for pid in pids {
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
            // A process that is ending has no memory left, and so no lines.
            let get = |key| kib(&text, key).unwrap_or(0);
            sum = sum.plus(Self {
                pss_kib: get("Pss"),
                rss_kib: get("Rss"),
                private_kib: get("Private_Clean") + get("Private_Dirty"),
            });
        }
        Some(sum)
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            pss_kib: self.pss_kib + other.pss_kib,
            rss_kib: self.rss_kib + other.rss_kib,
            private_kib: self.private_kib + other.private_kib,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_parsed() {
        assert_eq!(schedstat_ns("1734788 612444 2\n"), Some(1_734_788));
        assert_eq!(schedstat_ns(""), None);
        let status = "Name:\tcat\nVmHWM:\t    1780 kB\nVmRSS:\t 1700 kB\n";
        assert_eq!(kib(status, "VmHWM"), Some(1780));
        assert_eq!(kib(status, "Vm"), None);
        assert_eq!(kib(status, "Name"), None);
        let switches = "voluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(voluntary_switches(switches), Some(17));
        assert_eq!(voluntary_switches(status), None);
        assert_eq!(parent_of("22739 (a (b) c) R 22730 22730 20671 0 -1"), Some(22730));
        assert_eq!(parent_of("garbage"), None);
    }

    #[test]
    fn start_up_time_is_subtracted() {
        let usage = Usage { user_us: 300, system_us: 100, peak_kib: 5 };
        assert_eq!(usage.without(100), Usage { user_us: 225, system_us: 75, peak_kib: 5 });
        assert_eq!(usage.without(1000).cpu_us(), 0);
        assert_eq!(Usage::default().without(5), Usage::default());
    }

    #[test]
    fn reaped_children_are_counted() {
        let before = Usage::of_children().unwrap();
        let line = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", line]).status().unwrap().success());
        let after = Usage::of_children().unwrap();
        assert!(after.cpu_us() > before.cpu_us(), "{before:?} {after:?}");
        assert!(after.peak_kib > 0);
    }

    #[test]
    fn descendants_and_their_memory_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let below = descendants(std::process::id());
        let memory = Memory::of(&[child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(below.contains(&child.id()), "{below:?}");
        assert!(memory.is_some());
    }
}
