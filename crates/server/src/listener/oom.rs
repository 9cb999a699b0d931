//! A machine that runs out of memory must not kill the process by which its administrator comes in.

use std::fs;

/// By this score the kernel chooses which process to kill: from -1000 (never) to 1000.
const FILE: &str = "/proc/self/oom_score_adj";

/// Asks to be spared. Returns the score from before, which sessions get back; `None` where the
/// kernel knows no such thing or does not let us.
pub(super) fn spare_this_process() -> Option<i32> {
    let before = fs::read_to_string(FILE).ok()?.trim().parse().ok()?;
    fs::write(FILE, "-1000").ok()?;
    Some(before)
}

/// Takes back in a session what it has inherited from the listener.
pub(crate) fn restore(score: i32) {
    // Raising it is always allowed.
    let _ = fs::write(FILE, score.to_string());
}
