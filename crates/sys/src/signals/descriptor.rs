//! Descriptors of signalfd(2), and signals whose handler does not run.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

/// Number of [`Signals`](super::Signals) that collect.
pub(super) static COLLECTING: AtomicUsize = AtomicUsize::new(0);

/// Time within which a thread that does not hang has run the handler of a signal.
const HANDLER_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns a descriptor for signals that are pending and blocked for the thread that reads it.
pub(super) fn signalfd(set: &libc::sigset_t) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised.
    let fd = unsafe { libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes the next pending signal from a descriptor of [`signalfd`].
pub(super) fn take(fd: &OwnedFd) -> io::Result<Option<Signal>> {
    let mut buffer = [0; size_of::<libc::signalfd_siginfo>()];
    match rustix::io::read(fd, &mut buffer) {
        Ok(0) | Err(rustix::io::Errno::AGAIN) => Ok(None),
        Ok(_) => {
            // `ssi_signo` is the first field.
            let number = i32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
            Ok(Signal::from_named_raw(number))
        }
        Err(error) => Err(error.into()),
    }
}

/// Signals of this process that have a handler, as seen by a thread that blocks them.
pub(super) struct Pending(OwnedFd);

impl Pending {
    /// Changes no mask.
    pub(super) fn of(set: &libc::sigset_t) -> io::Result<Self> {
        signalfd(set).map(Self)
    }

    /// Waits until the handler has written to the pipe, behind which `has_come` is true. A signal that is
    /// pending for longer, although nothing collects signals, was sent to a thread that hangs: it is taken
    /// and returned.
    pub(super) fn wait_for_handler(&self, pipe: &OwnedFd, has_come: impl Fn() -> bool) -> Option<Signal> {
        let handler = || PollFd::new(pipe, PollFlags::IN);
        loop {
            let mut fds = [handler(), PollFd::new(&self.0, PollFlags::IN)];
            let _ = poll(&mut fds, None);
            if fds[0].revents().is_empty() && !fds[1].revents().is_empty() {
                let _ = poll(&mut [handler()], Timespec::try_from(HANDLER_TIMEOUT).ok().as_ref());
                if COLLECTING.load(Ordering::SeqCst) == 0
                    && let Ok(Some(signal)) = take(&self.0)
                {
                    return Some(signal);
                }
            }
            if has_come() {
                return None;
            }
        }
    }
}
