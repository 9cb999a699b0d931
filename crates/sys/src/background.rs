//! Going on in the background (`ssh -f`, `~&`).
#![expect(unsafe_code, reason = "fork exists only in the C library")]

use std::io;

/// Leaves the terminal's foreground: a copy of this process goes on in a session of its own, and the process that was
/// waited for exits with status 0 at once, running no destructors. Returns in the copy only.
///
/// # Errors
/// The process has more than one thread (only the calling one would live on, with the others' locks held for
/// ever), or the system has no room for another process. Then nothing has happened.
pub fn continue_in_background() -> io::Result<()> {
    // Names of threads are directories here, one for each.
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(io::Error::other(format!("cannot fork with {threads} threads running")));
    }
    // SAFETY: there is one thread (checked above), so the copy is a whole process: no lock is held by a
    // thread that does not exist in it.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            rustix::process::setsid()?;
            Ok(())
        }
        // SAFETY: `_exit` runs nothing of ours: buffers and destructors belong to the copy now.
        _ => unsafe { libc::_exit(0) },
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_with_threads_is_not_forked() {
        // The test harness runs every test on a thread of its own.
        assert!(super::continue_in_background().is_err());
    }
}
