//! Going on in the background (`ssh -f`, `~&`), and work that runs beside us in a copy of the process.
#![expect(unsafe_code, reason = "fork exists only in the C library")]

use std::io;

use rustix::process::Pid;

/// Leaves the terminal's foreground: a copy of this process goes on in a session of its own, and the process that was
/// waited for exits with status 0 at once, running no destructors. Returns in the copy only.
///
/// # Errors
/// The process has more than one thread (only the calling one would live on, with the others' locks held for
/// ever), or the system has no room for another process. Then nothing has happened.
pub fn continue_in_background() -> io::Result<()> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match fork()? {
        Copy::Original(_) => {
            drop(writer);
            // Where this process leads the session, its end hangs up on everybody in it: the copy must be gone first.
            let _ = rustix::io::read(&reader, &mut [0; 1]);
            leave(0)
        }
        Copy::Copied => {
            rustix::process::setsid()?;
            drop(writer);
            Ok(())
        }
    }
}

/// Runs `work` in a copy of this process, which ends with the status it returns. The copy is not waited for: it
/// is told to end by the descriptors it shares with us.
///
/// # Errors
/// As [`continue_in_background`]; then `work` has not been called.
pub fn in_copy(work: impl FnOnce() -> i32) -> io::Result<()> {
    match fork()? {
        Copy::Original(_) => Ok(()),
        Copy::Copied => {
            // A panic must not unwind into the caller's frames, which are the original's business.
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(255);
            leave(status)
        }
    }
}

/// Goes on in two processes: the copy gets `None`, the original the copy's id. Everything that is open is open in
/// both, and every value exists twice: what must not be in one of them is made after the split, or dropped first thing.
///
/// # Errors
/// As [`continue_in_background`]; then there is still one process.
pub fn split() -> io::Result<Option<Pid>> {
    match fork()? {
        Copy::Original(copy) => Ok(Some(copy)),
        Copy::Copied => Ok(None),
    }
}

enum Copy {
    Original(Pid),
    Copied,
}

fn fork() -> io::Result<Copy> {
    // Names of threads are directories here, one for each.
    let count = || std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    let mut threads = count();
    for _ in 0..50 {
        if threads == 1 {
            break;
        }
        // A thread that was joined a moment ago may still be listed.
        std::thread::sleep(std::time::Duration::from_millis(1));
        threads = count();
    }
    if threads != 1 {
        return Err(io::Error::other(format!("cannot fork with {threads} threads running")));
    }
    // SAFETY: there is one thread (checked above), so the copy is a whole process: no lock is held by a
    // thread that does not exist in it.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid).map_or(Copy::Copied, Copy::Original)),
    }
}

/// Ends this process without running destructors, which belong to the other one.
pub(crate) fn leave(status: i32) -> ! {
    // SAFETY: `_exit` runs nothing of ours.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_with_threads_is_not_forked() {
        // The test harness runs every test on a thread of its own.
        assert!(super::continue_in_background().is_err());
        assert!(super::in_copy(|| 0).is_err());
        assert!(super::split().is_err());
    }
}
