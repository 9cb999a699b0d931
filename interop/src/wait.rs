//! Waits for conditions.

use std::time::{Duration, Instant};

/// Waits until `is_true` returns true. The time limit of three minutes is a bound against hanging, not an
/// expectation.
#[track_caller]
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(180);
    while !is_true() {
        assert!(Instant::now() < end, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
