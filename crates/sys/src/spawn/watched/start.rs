//! The start of a program in a process that shares this one's memory until then.

use std::ffi::{CString, OsString, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::spawn::child_setup::{Session, in_child, signals_to_reset};
use crate::spawn::image::Image;
use crate::spawn::{NOT_EXECUTED, Program};

/// Stack of the new process until it executes its program, bytes. Its calls need less than 4 KiB.
const STACK: usize = 64 << 10;

impl Program {
    pub(super) fn spawn_sharing_memory(self) -> io::Result<Pid> {
        let arg0 = self.arg0.as_deref().unwrap_or(self.path.as_os_str());
        let words = std::iter::once(arg0).chain(self.args.iter().map(OsString::as_os_str));
        let image = Image::new(self.path.as_os_str(), words, self.env.as_deref())?;
        let dir = self.dir.map(|dir| CString::new(dir.as_os_str().as_bytes())).transpose()?;
        // Above the standard descriptors, so that none is overwritten before it has been copied.
        let above = |fd: Option<OwnedFd>| match fd {
            Some(fd) if fd.as_raw_fd() > 2 => Ok(fd),
            Some(fd) => Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?),
            None => crate::fd::null(),
        };
        let [stdin, stdout, stderr] = self.stdio;
        let stdio = [above(stdin)?, above(stdout)?, above(stderr)?];
        let keep: Vec<RawFd> = self.keep.iter().map(AsRawFd::as_raw_fd).collect();
        let start = Start {
            image,
            dir,
            stdio: [0, 1, 2].map(|number: usize| stdio[number].as_raw_fd()),
            session: self.session,
            reset: signals_to_reset(),
            keep,
            error: AtomicI32::new(0),
        };
        let pid = start.run()?;
        match start.error.load(Ordering::Relaxed) {
            0 => Ok(pid),
            error => {
                let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
                Err(io::Error::from_raw_os_error(error))
            }
        }
    }
}

/// What the new process does, with every allocation already made.
struct Start {
    image: Image,
    dir: Option<CString>,
    stdio: [RawFd; 3],
    session: Session,
    /// Bit N - 1: signal N gets its default action.
    reset: u64,
    keep: Vec<RawFd>,
    /// The error number of the step that failed; 0 when the program has been executed.
    error: AtomicI32,
}

impl Start {
    /// Creates the process and waits until it has executed its program or has failed.
    fn run(&self) -> io::Result<Pid> {
        let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
        // No handler of ours may run in the new process, where it would write to the memory of this one.
        let blocked = BlockedSignals::new();
        // SAFETY: the stack grows down from its end, which is aligned to 16 bytes; it and `self` outlive the
        // process's use of them, as this thread goes on (CLONE_VFORK) when that has executed a program or has
        // ended. `child` makes system calls only, and writes to nothing but its stack, this thread's `errno`
        // and `self.error`.
        let pid = unsafe {
            libc::clone(
                child,
                stack.as_mut_ptr().add(stack.capacity()).cast(),
                libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                std::ptr::from_ref(self).cast_mut().cast(),
            )
        };
        let error = io::Error::last_os_error();
        drop(blocked);
        Pid::from_raw(pid).filter(|_| pid > 0).ok_or(error)
    }

    /// Runs in the new process: async-signal-safe calls only. Returns only the reason of a failure.
    fn execute(&self) -> io::Error {
        for (fd, number) in self.stdio.iter().zip(0..) {
            // SAFETY: no memory is involved.
            if unsafe { libc::dup2(*fd, number) } < 0 {
                return io::Error::last_os_error();
            }
        }
        if let Some(dir) = &self.dir {
            // SAFETY: the text ends in a null byte and outlives the call.
            if unsafe { libc::chdir(dir.as_ptr()) } < 0 {
                return io::Error::last_os_error();
            }
        }
        // The last step of a child unblocks all signals; those with handlers have their default actions then.
        match in_child(self.session, self.reset, &self.keep) {
            Ok(()) => self.image.execute(),
            Err(error) => error,
        }
    }
}

/// First function of the new process.
extern "C" fn child(start: *mut c_void) -> c_int {
    // SAFETY: the pointer is that of `Start::run`, whose thread waits.
    let start = unsafe { &*start.cast_const().cast::<Start>() };
    let error = start.execute().raw_os_error().unwrap_or(libc::EINVAL);
    start.error.store(error, Ordering::Relaxed);
    // SAFETY: ends the process without running code of the one whose memory it shares.
    unsafe { libc::_exit(NOT_EXECUTED) }
}

/// Blocks all signals of this thread until it is dropped.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: sigset_t is plain memory that the calls fill; the mask is this thread's own.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            Self(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set is the one that the call in `new` filled.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}
