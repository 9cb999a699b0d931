//! Collecting signals on Linux, with signalfd(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::process::Signal;

use super::Blocked;

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
        // SAFETY: the set is initialised.
        let fd = unsafe { libc::signalfd(-1, &blocked.set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, blocked })
    }

    /// Stops collecting and restores the mask. Signals that are pending take effect now.
    pub fn release(self) {
        self.blocked.release();
    }

    /// The next pending signal; `None` when there is none. Several of one kind may be merged.
    pub fn take(&self) -> io::Result<Option<Signal>> {
        let mut buffer = [0; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.fd, &mut buffer) {
            Ok(0) | Err(rustix::io::Errno::AGAIN) => Ok(None),
            Ok(_) => {
                // `ssi_signo` is the first field.
                let number = i32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
                Ok(Signal::from_named_raw(number))
            }
            Err(error) => Err(error.into()),
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
