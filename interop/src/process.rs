//! Resource use of running processes.

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

/// Returns the highest peak of resident memory among a process and its descendants, MiB.
pub fn peak_mib(pid: u32) -> u64 {
    let peak = |pid: &u32| -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    family(pid).iter().filter_map(peak).max().unwrap_or_default() / 1024
}
