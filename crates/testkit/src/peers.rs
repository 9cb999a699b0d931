//! Programs of peers, and tests that are skipped without them.

use std::path::PathBuf;

/// Finds a peer's program on PATH or in the sbin directories.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}

/// Finds several peers' programs. If one is missing, reports the skipped test and returns `None`.
pub fn peers<const N: usize>(test: &str, programs: [&str; N]) -> Option<[PathBuf; N]> {
    let found = programs.map(find);
    let missing: Vec<&str> =
        programs.iter().zip(&found).filter(|(_, found)| found.is_none()).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Some(found.map(Option::unwrap_or_default));
    }
    skip(test, &format!("not installed: {}", missing.join(", ")));
    None
}

/// Reports on standard error that `test` is skipped; panics instead where skipping is not allowed.
pub fn skip(test: &str, why: &str) {
    assert!(std::env::var_os("LH_REQUIRE_PEERS").is_none(), "{test} must not be skipped here: {why}");
    skip_unavailable(test, why);
}

/// Reports that `test` is skipped because this kernel or container lacks a feature that no Debian package
/// provides.
pub fn skip_unavailable(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
    if let Some(log) = std::env::var_os("LH_SKIP_LOG") {
        use std::io::Write as _;
        if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(log) {
            let _ = writeln!(file, "{test}: {why}");
        }
    }
}

/// Repeats a conversation with OpenSSH's `sshd` before the login, up to twice, if the server closes it.
///
/// Until a login, the sandbox of `sshd` 9.2 kills a process that was stopped and continued while it waited in
/// ppoll(2): it does not allow `restart_syscall`. A test that starts hundreds of such servers one after the
/// other meets this wherever the machine is frozen for a moment.
///
/// # Errors
/// Those of the last attempt, or the first error that is not a closed connection.
pub fn again_if_closed<T>(mut conversation: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    for _ in 0..2 {
        match conversation() {
            Err(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe) => {
                eprintln!("sshd closed the connection ({error}); once more");
            }
            result => return result,
        }
    }
    conversation()
}
