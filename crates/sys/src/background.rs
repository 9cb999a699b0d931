//! Continuing in the background (`ssh -f`, `~&`), and work in a forked copy of the process.
#![expect(unsafe_code, reason = "fork exists only in the C library")]

use std::io;

use rustix::process::Pid;

/// Moves this process to the background: a forked copy continues in a session of its own, and the original
/// exits with status 0 at once, without running destructors. Returns in the copy only.
///
/// # Errors
/// The process has more than one thread (only the calling one would survive, with the others' locks held
/// forever), or the system cannot create another process. Then nothing has happened.
pub fn continue_in_background() -> io::Result<()> {
    let (reader, writer) = std::io::pipe()?;
    match fork()? {
        Copy::Original(_) => {
            drop(writer);
            // If this process leads the session, its exit sends SIGHUP to every process in it, so the copy
            // must have left the session before.
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

/// Runs `work` in a forked copy of this process, which exits with the status that `work` returns. The copy is
/// not waited for; shared descriptors tell it when to end.
///
/// # Errors
/// Those of [`continue_in_background`]; then `work` has not been called.
pub fn in_copy(work: impl FnOnce() -> i32) -> io::Result<()> {
    match fork()? {
        Copy::Original(_) => Ok(()),
        Copy::Copied => {
            // A panic must not unwind into the caller's frames, which belong to the original.
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(255);
            leave(status)
        }
    }
}

/// Forks: the copy gets `None`, the original the copy's process id. Every open descriptor is open in both,
/// and every value exists twice. A value that only one of them may have must be created after the split, or
/// dropped at once.
///
/// # Errors
/// Those of [`continue_in_background`]; then there is still one process.
pub fn split() -> io::Result<Option<Pid>> {
    match fork()? {
        Copy::Original(copy) => Ok(Some(copy)),
        Copy::Copied => Ok(None),
    }
}

/// Number of threads of this process; 1 without `/proc`.
#[cfg(target_os = "linux")]
fn threads() -> io::Result<usize> {
    /// One entry for each thread of this process.
    const THREADS: &str = "/proc/self/task";
    // Linux counts one link of this directory for each thread, beside the usual two. Reading the count takes
    // one system call; listing takes five, three times a login.
    let links = rustix::fs::lstat(THREADS).map_or(0, |stat| stat.st_nlink);
    Ok(if links == 3 { 1 } else { std::fs::read_dir(THREADS).map_or(1, Iterator::count) })
}

/// Number of threads of this process.
#[cfg(target_os = "macos")]
fn threads() -> io::Result<usize> {
    // SAFETY: all-zero bytes are a valid `proc_taskinfo`, which is integers only.
    let mut info: libc::proc_taskinfo = unsafe { std::mem::zeroed() };
    let length = libc::c_int::try_from(size_of::<libc::proc_taskinfo>()).map_err(io::Error::other)?;
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: the kernel writes at most `length` bytes, the size of `info`.
    let written =
        unsafe { libc::proc_pidinfo(own, libc::PROC_PIDTASKINFO, 0, (&raw mut info).cast(), length) };
    if written != length {
        return Err(io::Error::last_os_error());
    }
    usize::try_from(info.pti_threadnum).map_err(io::Error::other)
}

/// Number of threads of this process.
#[cfg(target_os = "freebsd")]
fn threads() -> io::Result<usize> {
    // SAFETY: all-zero bytes are a valid `kinfo_proc`: integers, arrays and null pointers.
    let mut info: libc::kinfo_proc = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::kinfo_proc>();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let name = [libc::CTL_KERN, libc::KERN_PROC, libc::KERN_PROC_PID, own];
    // SAFETY: the name has four numbers, and the kernel writes at most `length` bytes, the size of `info`.
    let status = unsafe {
        libc::sysctl(name.as_ptr(), 4, (&raw mut info).cast(), &raw mut length, std::ptr::null(), 0)
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    usize::try_from(info.ki_numthreads).map_err(io::Error::other)
}

enum Copy {
    Original(Pid),
    Copied,
}

fn fork() -> io::Result<Copy> {
    let mut threads = threads()?;
    for _ in 0..50 {
        if threads == 1 {
            break;
        }
        // A thread that was just joined may still be listed.
        std::thread::sleep(std::time::Duration::from_millis(1));
        threads = self::threads()?;
    }
    if threads != 1 {
        return Err(io::Error::other(format!("cannot fork with {threads} threads running")));
    }
    // SAFETY: there is one thread (checked above), so the copy is complete: no lock is held by a thread that
    // does not exist in it.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid).map_or(Copy::Copied, Copy::Original)),
    }
}

/// Ends this process without running destructors, whose effects belong to the other process.
pub(crate) fn leave(status: i32) -> ! {
    // SAFETY: `_exit` runs no code of ours.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn process_with_threads_is_not_forked() {
        // The test harness runs every test in a thread of its own.
        assert!(super::continue_in_background().is_err());
        assert!(super::in_copy(|| 0).is_err());
        assert!(super::split().is_err());
    }
}
