//! Limits of the control groups of the SSH processes.

use std::process::{Command, Stdio};

use crate::memory::{self, MemoryGroups};
use crate::quota::{self, Groups};

/// The functions of `sh` that print the groups of the shell's parent: `c` their quotas, `w` their memory, a
/// line each.
pub(super) fn functions() -> String {
    format!("{}\n{}\n{}", quota::ROOT, quota::FUNCTION, memory::FUNCTION)
}

/// The groups of this process, read by one shell.
pub(super) fn groups_here() -> (Groups, MemoryGroups) {
    let script = format!("{}\nc; echo; w", functions());
    let done = Command::new("/bin/sh").args(["-c", &script]).stdin(Stdio::null()).output();
    let shown = done.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
    let (quotas, memory) = shown.split_once('\n').unwrap_or_default();
    (quota::groups(quotas), memory::groups(memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_understood_by_one_shell() {
        let script = format!("{}\nc; echo; w; echo done", functions());
        let done = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(out.lines().count() == 2 && out.trim_end().ends_with("done") && err.is_empty(), "{out}{err}");
    }
}
