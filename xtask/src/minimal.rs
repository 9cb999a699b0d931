//! Minimal versions: the lower bounds of the versions in `Cargo.toml` files must suffice.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::workspace::{Outcome, UNOPTIMISED, call, cargo, host, overrides, root, target_dir};

/// Parts of the workspace, besides its lock file.
const PARTS: [&str; 8] = ["Cargo.toml", "bench", "bins", "campaign", "crates", "fuzz", "interop", "xtask"];

/// Checks the libraries and programs of the workspace, without their tests, with the oldest version of each
/// direct dependency that `Cargo.toml` permits, and the newest versions of indirect dependencies. The lock
/// file for that is written beside links to the workspace's parts; the workspace's own lock file stays
/// unchanged.
pub(crate) fn check() -> Outcome {
    let target = target_dir().join("minimal");
    let workspace = target.join("workspace");
    link(&workspace).map_err(|error| format!("{}: {error}", workspace.display()))?;
    let there = |args: &[&str]| {
        let mut command = cargo();
        command.current_dir(&workspace).args(args);
        command
    };
    // Cargo requires permission for the unstable option. This call compiles nothing.
    let mut update = there(&["update", "-Z", "direct-minimal-versions"]);
    let updated = update.env("RUSTC_BOOTSTRAP", "1").output().map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&updated.stderr);
    if said.contains("failed to select a version") {
        return Err(format!("a lower bound is too low for what others need:\n{said}"));
    }
    let fetched = updated.status.success()
        && there(&["fetch", "--locked", "--quiet"]).status().is_ok_and(|status| status.success());
    if !fetched {
        println!("minimal: SKIPPED: the package registry cannot be reached\n{said}");
        return Ok(());
    }
    let mut check = there(&["check", "--locked", "--workspace"]);
    call(check.args(UNOPTIMISED).args(overrides(&workspace, &host()?)?).env("CARGO_TARGET_DIR", &target))
}

fn link(workspace: &Path) -> std::io::Result<()> {
    fs::create_dir_all(workspace)?;
    for part in PARTS {
        let link = workspace.join(part);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        symlink(root().join(part), &link)?;
    }
    Ok(())
}
