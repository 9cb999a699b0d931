//! Resources of a server and all its processes.

use std::fmt;
use std::time::Duration;

use lh_interop::process::family;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Memory, descriptors and processes of a process and all its descendants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Footprint {
    pub(super) processes: usize,
    /// Sum of the proportional set sizes, KiB.
    pub(super) pss_kib: u64,
    /// Sum of the private memory, KiB.
    pub(super) private_kib: u64,
    /// Private memory of the largest process, KiB.
    pub(super) largest_kib: u64,
    /// Open descriptors of the first process alone.
    pub(super) descriptors: usize,
}

impl Footprint {
    /// Measures the processes now.
    pub(super) fn of(pid: u32) -> Self {
        let mut all = Self {
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count),
            ..Self::default()
        };
        for process in family(pid) {
            // A process may have ended, or be a zombie that its parent has not reaped yet. It counts as a
            // process.
            all.processes += 1;
            let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
            let kib = |name: &str| -> u64 {
                let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
                line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
            };
            let private = kib("Private_Clean:") + kib("Private_Dirty:");
            all.pss_kib += kib("Pss:");
            all.private_kib += private;
            all.largest_kib = all.largest_kib.max(private);
        }
        all
    }

    /// Returns the maximum of each number.
    pub(super) fn max(&self, other: &Self) -> Self {
        Self {
            processes: self.processes.max(other.processes),
            pss_kib: self.pss_kib.max(other.pss_kib),
            private_kib: self.private_kib.max(other.private_kib),
            largest_kib: self.largest_kib.max(other.largest_kib),
            descriptors: self.descriptors.max(other.descriptors),
        }
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processes, pss_kib, private_kib, largest_kib, descriptors } = self;
        write!(
            f,
            "{processes} processes, {pss_kib} KiB PSS, {private_kib} KiB private (largest process {largest_kib}), \
             {descriptors} descriptors of the listener"
        )
    }
}

/// Ticks per second of the times in `/proc/PID/stat`: equal on all architectures that we build for.
const USER_HZ: u64 = 100;

/// CPU time of a process, and of its children that have been reaped.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CpuTime {
    pub(super) own: Duration,
    pub(super) children: Duration,
}

impl CpuTime {
    /// Returns the CPU time so far.
    pub(super) fn of(pid: u32) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The fields follow the name, which may contain any bytes: state is field 3, the four times are 14 to
        // 17.
        let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = fields.skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
        let time = |at: usize| {
            let sum: u64 = ticks.iter().skip(at).take(2).sum();
            Duration::from_millis(sum * 1000 / USER_HZ)
        };
        Self { own: time(0), children: time(2) }
    }

    /// Returns the CPU time since `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self { own: self.own - before.own, children: self.children - before.children }
    }
}

/// Raises the limit of descriptors to its maximum: a thousand clients need a thousand sockets.
pub(super) fn raise_descriptor_limit() -> rustix::io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
}
