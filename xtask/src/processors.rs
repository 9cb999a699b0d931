//! Other processors: checks that the programs still compile for 64-bit ARM.

use crate::disk::OTHER_TARGETS;
use crate::workspace::{Outcome, UNOPTIMISED, add_library, call, cargo, overrides, root, target_dir};

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Checks all programs for 64-bit ARM, if the standard library for it is installed or can be installed. `dist
/// --static` also compiles the cryptography library for it.
pub(crate) fn check() -> Outcome {
    if !add_library("processors", TARGET)? {
        return Ok(());
    }
    // PAM and Kerberos need libraries of the target processor.
    let check = ["check", "--locked", "--workspace", "--bins", "--exclude", "xtask", "--target", TARGET];
    let target = target_dir().join(OTHER_TARGETS);
    call(
        cargo()
            .args(check)
            .args(UNOPTIMISED)
            .args(overrides(&root(), TARGET)?)
            .env("CARGO_TARGET_DIR", target),
    )
}
