//! What running programs hold.

/// What one process has open and in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Open descriptors.
    pub descriptors: usize,
    /// Resident memory.
    pub kib: usize,
}

/// What a process holds now; nothing when it is gone.
pub fn held(pid: u32) -> Held {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib = line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Held { descriptors, kib }
}

/// The processes that a process has started, and those that they have.
pub fn below(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let mut all: Vec<u32> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    for child in all.clone() {
        all.extend(below(child));
    }
    all
}
