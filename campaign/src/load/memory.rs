//! Resources of a server and all its processes.

use std::fmt;

use lh_interop::process::family;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Memory, descriptors and processes of a process and all below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Footprint {
    pub(super) processes: usize,
    /// Proportional set size of all together.
    pub(super) pss_kib: u64,
    /// Memory that no other process shares, of all together.
    pub(super) private_kib: u64,
    /// Private memory of the largest.
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
            // A process may be gone, or a zombie that its parent has not seen yet, which counts.
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

    /// The maximum of each number.
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

/// As many descriptors as this process may have: a thousand clients are a thousand sockets.
pub(super) fn raise_descriptor_limit() -> rustix::io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
}
