//! Attributes of a new process, set between fork and exec: signals, session, terminal, descriptors and ids.
#![expect(unsafe_code, reason = "code between fork and exec")]

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::RawFd;

#[cfg(target_os = "linux")]
use crate::ids::Ids;

/// Session and terminal of the new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Session {
    Inherited,
    New,
    NewWithTerminal,
}

/// Bit N - 1 is set for each signal N that this process ignores or handles, as `/proc` says; all bits where
/// it does not.
pub(super) fn signals_to_reset() -> u64 {
    let read = || -> Option<u64> {
        let mut text = [0; 4096];
        let n = File::open("/proc/self/status").ok()?.read(&mut text).ok()?;
        let text = std::str::from_utf8(text.get(..n)?).ok()?;
        let mask = |name| {
            let mask = text.lines().find_map(|line| line.strip_prefix(name))?;
            u64::from_str_radix(mask.trim(), 16).ok()
        };
        Some(mask("SigIgn:")? | mask("SigCgt:")?)
    };
    read().unwrap_or(u64::MAX)
}

/// Largest signal number whose action is reset. On other systems than Linux only signals with names count.
fn last_signal() -> libc::c_int {
    #[cfg(target_os = "linux")]
    return libc::SIGRTMAX();
    #[cfg(not(target_os = "linux"))]
    return 31;
}

/// Empties this process's signal mask; async-signal-safe.
pub(super) fn unblock_all() {
    // SAFETY: sigset_t is plain memory that sigemptyset fills; the mask is this process's own.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// Starts a new session without a controlling terminal; async-signal-safe.
pub(super) fn start_session() -> io::Result<()> {
    // SAFETY: no memory is involved. Fails only for a group leader, which a new child is not.
    if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Runs between fork and exec: async-signal-safe calls only. `reset` are the signals that get their default
/// actions, as in [`signals_to_reset`].
pub(super) fn in_child(session: Session, reset: u64, keep: &[RawFd]) -> io::Result<()> {
    for signal in 1..=last_signal() {
        // A system call for each of 64 signals would be a tenth of a login's system calls.
        let is_set = reset & (1 << (signal - 1)) != 0;
        if is_set && signal != libc::SIGKILL && signal != libc::SIGSTOP {
            // SAFETY: setting a default action touches no memory of ours. The C library refuses the numbers
            // that it reserves, which is fine.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    // Not before: a process that shares its parent's memory must run no handler.
    unblock_all();
    if session != Session::Inherited {
        start_session()?;
    }
    if session == Session::NewWithTerminal {
        // SAFETY: the request takes an integer argument; descriptor 0 is set up by now.
        if unsafe { libc::ioctl(0, libc::TIOCSCTTY as _, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // Marking instead of closing keeps the pipe open on which the standard library reports a failed exec.
    // Kernels before 5.11 lack it; there the descriptors' own close-on-exec flags, which Rust always sets,
    // suffice.
    // SAFETY: no memory is involved.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
    #[cfg(not(target_os = "linux"))]
    mark_for_closing();
    for &fd in keep {
        // SAFETY: no memory is involved; the descriptor is open, because its owner lives on the parent's
        // stack.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Marks every descriptor from 3 up as close-on-exec, one by one.
#[cfg(not(target_os = "linux"))]
fn mark_for_closing() {
    /// Limit of the loop, because some systems have huge tables. Descriptors above it are close-on-exec if
    /// Rust opened them.
    const MOST: libc::c_int = 1 << 16;
    // SAFETY: no memory is involved; both calls are async-signal-safe, and fail for numbers that are not
    // open.
    unsafe {
        for fd in 3..libc::getdtablesize().min(MOST) {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

/// Becomes another user between fork and exec, by raw system calls: the C library's functions would take
/// locks to reach all threads, while a forked child has only one thread.
#[cfg(target_os = "linux")]
pub(super) fn change_ids(ids: &Ids) -> io::Result<()> {
    // SAFETY: pointer and length belong to the same slice; the other calls involve no memory.
    let done = unsafe {
        libc::syscall(libc::SYS_setgroups, ids.groups.len(), ids.groups.as_ptr()) == 0
            && libc::syscall(libc::SYS_setresgid, ids.gid, ids.gid, ids.gid) == 0
            && libc::syscall(libc::SYS_setresuid, ids.uid, ids.uid, ids.uid) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}
