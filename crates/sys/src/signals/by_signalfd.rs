//! Collecting signals on Linux, with signalfd(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use std::sync::atomic::Ordering;

use rustix::process::Signal;

use super::Blocked;
use super::descriptor::{COLLECTING, signalfd, take};

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
