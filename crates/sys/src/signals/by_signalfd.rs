//! Collecting signals on Linux, with signalfd(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::{Blocked, CAME, HUNG};

/// Number of [`Signals`] that collect.
static COLLECTING: AtomicUsize = AtomicUsize::new(0);

/// Time within which a thread that does not hang has run the handler of a signal.
const HANDLER_TIMEOUT: Duration = Duration::from_millis(500);

/// Blocked signals that wait to be read from a descriptor instead of interrupting or ending this process.
/// Create it before any thread is started: threads inherit the mask. Programs started with [`crate::spawn`]
/// get an empty mask. The standard library's `Command` passes this mask on, so its programs would never
/// receive these signals.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    blocked: Blocked,
}

impl Signals {
    /// Blocks these signals for this thread (and threads it starts), and collects them from now on.
    pub fn collect(signals: &[Signal]) -> io::Result<Self> {
        let blocked = Blocked::new(signals)?;
        let fd = signalfd(&blocked.set)?;
        COLLECTING.fetch_add(1, Ordering::SeqCst);
        Ok(Self { fd, blocked })
    }

    /// Stops collecting and restores the mask. Signals that are pending take effect now.
    pub fn release(self) {
        self.blocked.release();
        COLLECTING.fetch_sub(1, Ordering::SeqCst);
    }

    /// The next pending signal; `None` when there is none. Several of one kind may be merged.
    pub fn take(&self) -> io::Result<Option<Signal>> {
        take(&self.fd)
    }
}

fn signalfd(set: &libc::sigset_t) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised.
    let fd = unsafe { libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes the next pending signal from a descriptor of [`signalfd`].
fn take(fd: &OwnedFd) -> io::Result<Option<Signal>> {
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
    pub(super) fn of(signals: &[Signal]) -> io::Result<Self> {
        signalfd(&super::set_of(signals)).map(Self)
    }

    /// Waits until the handler has written to the pipe. A signal that is pending for longer, although nothing
    /// collects signals, was sent to a thread that hangs: it is taken here, and noted in the handler's place.
    pub(super) fn wait_for_handler(&self, pipe: &OwnedFd) {
        let handler = || PollFd::new(pipe, PollFlags::IN);
        loop {
            let mut fds = [handler(), PollFd::new(&self.0, PollFlags::IN)];
            let _ = poll(&mut fds, None);
            if fds[0].revents().is_empty() && !fds[1].revents().is_empty() {
                let _ = poll(&mut [handler()], Timespec::try_from(HANDLER_TIMEOUT).ok().as_ref());
                if COLLECTING.load(Ordering::SeqCst) == 0
                    && let Ok(Some(signal)) = take(&self.0)
                {
                    let came = CAME.compare_exchange(0, signal.as_raw(), Ordering::SeqCst, Ordering::SeqCst);
                    HUNG.store(came.is_ok(), Ordering::SeqCst);
                    return;
                }
            }
            if CAME.load(Ordering::SeqCst) != 0 {
                return;
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn collected_signals_are_read_not_delivered() {
        let signals = Signals::collect(&[Signal::USR2]).unwrap();
        assert_eq!(signals.take().unwrap(), None);
        // Sent to this thread, which has blocked it; other tests' threads may not have.
        // SAFETY: no memory is involved.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
        poll(&mut [PollFd::new(&signals, PollFlags::IN)], None).unwrap();
        assert_eq!(signals.take().unwrap(), Some(Signal::USR2));
    }
}
