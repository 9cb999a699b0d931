//! Protects the listener from the kernel's out-of-memory killer, so that an administrator can still log in.

use std::fs;

/// The score by which the kernel chooses a process to kill: from -1000 (never) to 1000.
const FILE: &str = "/proc/self/oom_score_adj";

/// Asks the kernel to spare this process. Returns the previous score, which sessions restore; `None` where
/// the kernel has no such score or denies the change.
pub(super) fn spare_this_process() -> Option<i32> {
    let before = fs::read_to_string(FILE).ok()?.trim().parse().ok()?;
    fs::write(FILE, "-1000").ok()?;
    Some(before)
}

/// Restores this score in a session, which has inherited the listener's.
pub(crate) fn restore(score: i32) {
    // Any process may raise its score.
    let _ = fs::write(FILE, score.to_string());
}
