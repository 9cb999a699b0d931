//! Checks files of the packages that other programs read, with those programs.

use std::path::Path;
use std::process::Command;

use crate::workspace::Outcome;

/// Checks the files for users, directories and log rotation below `root`, in which the packages are unpacked.
pub(super) fn check(root: &Path) -> Outcome {
    let name = "longhaul-server.conf";
    let below = format!("--root={}", root.display());
    accepted("systemd-sysusers", &[&below, "--dry-run", name])?;
    // It has no dry run before systemd 256, so the directories are made below `root`.
    accepted("systemd-tmpfiles", &[&below, "--create", name])?;
    let rules = root.join("etc/logrotate.d/longhaul-server");
    let state = root.join("logrotate.state");
    accepted("logrotate", &["--debug", "--state", &state.to_string_lossy(), &rules.to_string_lossy()])
}

/// Fails if the program does, or reports an error and goes on. A program that is not installed checks
/// nothing.
fn accepted(program: &str, args: &[&str]) -> Outcome {
    if lh_interop::find(program).is_none() {
        println!("SKIPPED dist: {program} is not installed, so its file is not checked");
        return Ok(());
    }
    let done = Command::new(program).args(args).env("LC_ALL", "C").output();
    let done = done.map_err(|error| format!("{program}: {error}"))?;
    let text = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    if done.status.success() && !text.contains("error: ") {
        Ok(())
    } else {
        Err(format!("{program}: {}\n{text}", done.status))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tree::{Item, write};
    use super::*;

    /// Returns a root directory with the files of the packages, of which one has another line.
    fn root(changed: &str) -> tempfile::TempDir {
        let packaging = crate::workspace::root().join("packaging/config");
        let items = [
            ("sysusers.conf", "usr/lib/sysusers.d/longhaul-server.conf"),
            ("tmpfiles.conf", "usr/lib/tmpfiles.d/longhaul-server.conf"),
            ("logrotate", "etc/logrotate.d/longhaul-server"),
        ]
        .map(|(name, path)| {
            let mut text = fs::read_to_string(packaging.join(name)).unwrap();
            if name == changed {
                text.push_str("nonsense /x\n");
            }
            Item::text(path, text)
        });
        let root = tempfile::tempdir().unwrap();
        write(&items, root.path()).unwrap();
        root
    }

    #[test]
    fn other_programs_accept_their_files() {
        // The directories that are made belong to root.
        if !lh_interop::is_root() {
            return lh_interop::skip("other_programs_accept_their_files", "needs root");
        }
        check(root("").path()).unwrap();
        for (program, changed) in [
            ("systemd-sysusers", "sysusers.conf"),
            ("systemd-tmpfiles", "tmpfiles.conf"),
            ("logrotate", "logrotate"),
        ] {
            if lh_interop::find(program).is_some() {
                let error = check(root(changed).path()).unwrap_err();
                assert!(error.contains(program) && error.contains("nonsense"), "{error}");
            }
        }
    }
}
