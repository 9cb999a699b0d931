//! Other processors: what is built for 64-bit ARM must go on compiling.

use crate::workspace::{Outcome, add_library, call, cargo, target_dir};

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// Compiles the cryptography library, which comes with C and assembler.
const COMPILER: &str = "aarch64-linux-gnu-gcc";

/// Checks all programs for 64-bit ARM, where a compiler for it is installed, and its standard library is or can be.
pub(crate) fn check() -> Outcome {
    if lh_interop::find(COMPILER).is_none() {
        println!("processors: SKIPPED: {TARGET}: apt-get install gcc-aarch64-linux-gnu");
        return Ok(());
    }
    if !add_library("processors", TARGET)? {
        return Ok(());
    }
    // PAM and Kerberos need libraries of that processor.
    let check = ["check", "--locked", "--workspace", "--bins", "--exclude", "xtask", "--target", TARGET];
    let target = target_dir().join("processors");
    call(
        cargo()
            .args(check)
            .env("CARGO_TARGET_DIR", target)
            .env(format!("CC_{}", TARGET.replace('-', "_")), COMPILER),
    )
}
