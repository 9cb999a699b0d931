//! Other systems: checks that the client programs still compile for macOS and FreeBSD.

use crate::disk::OTHER_TARGETS;
use crate::workspace::{Outcome, UNOPTIMISED, add_library, call, cargo, overrides, root, target_dir};

const TARGETS: [&str; 2] = ["x86_64-apple-darwin", "x86_64-unknown-freebsd"];

/// User programs: no servers, and no programs that run as root.
const PROGRAMS: [&str; 9] = [
    "lhssh",
    "lhscp",
    "lhsftp",
    "lhssh-keygen",
    "lhssh-agent",
    "lhssh-add",
    "lhssh-keyscan",
    "lhssh-sk-helper",
    "lhssh-pkcs11-helper",
];

/// Checks the client programs for each system whose standard library is installed or can be installed.
/// Warnings are errors: code that is unused there probably indicates a missing call.
pub(crate) fn check() -> Outcome {
    for target in TARGETS {
        if !add_library("systems", target)? {
            continue;
        }
        let mut check = cargo();
        check.args(["check", "--locked", "--target", target]).args(UNOPTIMISED);
        check.args(overrides(&root(), target)?);
        check.args(PROGRAMS.iter().flat_map(|program| ["-p", program]));
        check.env("CARGO_TARGET_DIR", target_dir().join(OTHER_TARGETS)).env("RUSTFLAGS", "-Dwarnings");
        call(&mut check)?;
    }
    Ok(())
}
