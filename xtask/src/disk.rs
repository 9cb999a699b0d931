//! Disk space: the free space before a full test run, and cleaning up during the run.
//!
//! A linker that writes to a full disk dies of SIGBUS, without a message about the disk.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::workspace::{Outcome, target_dir};

/// Directory in the target directory of the checks for other targets: the steps `processors` and
/// `systems`. They share one, because macros and build scripts are compiled for this machine in all of
/// them.
pub(crate) const OTHER_TARGETS: &str = "other-targets";

/// Directories in the target directory that only steps before the step `tests` use.
const DONE: [&str; 3] = ["minimal", "miri", OTHER_TARGETS];

/// Returns the free space on cargo's file system, as text.
pub(crate) fn free() -> Result<String, String> {
    let target = target_dir();
    // Before the first build there is no target directory.
    let place = target.ancestors().find(|place| place.is_dir()).unwrap_or(Path::new("."));
    let space = rustix::fs::statvfs(place).map_err(|error| format!("{}: {error}", place.display()))?;
    let bytes = space.f_bavail.saturating_mul(space.f_frsize);
    Ok(format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10))
}

/// Removes files that no step after `tests` needs: the test executables, and the builds of the steps in
/// [`DONE`].
pub(crate) fn sweep() -> Outcome {
    let target = target_dir();
    remove_executables(&target.join("debug/deps"))?;
    for name in DONE {
        let directory = target.join(name);
        if directory.is_dir() {
            fs::remove_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        }
    }
    Ok(())
}

/// Removes executables that have no second link in the directory above. Programs have one, test executables
/// have none.
fn remove_executables(deps: &Path) -> Outcome {
    let failed = |error: std::io::Error| format!("{}: {error}", deps.display());
    for entry in fs::read_dir(deps).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let facts = entry.metadata().map_err(failed)?;
        let is_program = entry.path().extension().is_none() && facts.permissions().mode() & 0o100 != 0;
        if facts.is_file() && is_program && facts.nlink() == 1 {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_libraries_stay() {
        let target = tempfile::tempdir().unwrap();
        let deps = target.path().join("deps");
        fs::create_dir(&deps).unwrap();
        for (name, mode) in
            [("a_test-1", 0o755), ("lhssh-1", 0o755), ("liba-1.so", 0o755), ("a_test-1.d", 0o644)]
        {
            fs::write(deps.join(name), "").unwrap();
            fs::set_permissions(deps.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::hard_link(deps.join("lhssh-1"), target.path().join("lhssh")).unwrap();
        remove_executables(&deps).unwrap();
        let mut left: Vec<_> = fs::read_dir(&deps).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a_test-1.d", "lhssh-1", "liba-1.so"]);
    }

    #[test]
    fn free_space_has_a_unit() {
        assert!(free().unwrap().ends_with(" GB"));
    }
}
