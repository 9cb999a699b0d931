//! Polling of descriptors.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use lh_sys::socket::PEER_CLOSED;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::ids::{HandlerId, SourceId};

/// Conditions to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Bytes to read, end of file, or an error.
    pub read: bool,
    /// Space to write, or an error.
    pub write: bool,
}

impl Interest {
    /// Wait for readability.
    pub const READ: Self = Self { read: true, write: false };
    /// Wait for writability.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Wait for either.
    pub const BOTH: Self = Self { read: true, write: true };
}

/// Readiness of a descriptor. An error or hang-up is reported as every condition that was waited for; the
/// next call on the descriptor returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready {
    /// Reading will not block.
    pub readable: bool,
    /// Writing will not block.
    pub writable: bool,
    /// The other end is closed.
    pub hangup: bool,
}

/// Owner of a polled descriptor, which the driver calls when it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Link,
    Control,
    /// Slot, and the handler in it at that time: the slot may have another one when readiness is served.
    Handler(usize, HandlerId),
    Source(SourceId),
}

/// The set of descriptors to poll.
pub struct Interests<'a> {
    owner: Owner,
    owners: Vec<(Owner, usize, Interest)>,
    fds: Vec<PollFd<'a>>,
}

impl<'a> Interests<'a> {
    pub(crate) fn new() -> Self {
        Self { owner: Owner::Link, owners: Vec::new(), fds: Vec::new() }
    }

    /// Sets the owner of the descriptors that are added from now on.
    pub(crate) const fn set_owner(&mut self, owner: Owner) {
        self.owner = owner;
    }

    /// Adds `interest` in `fd`; `token` is returned with the readiness. An empty interest is left out, so
    /// that an unwanted hang-up does not wake the loop again and again.
    pub fn add(&mut self, token: usize, fd: BorrowedFd<'a>, interest: Interest) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, interest.read);
        flags.set(PollFlags::OUT, interest.write);
        if !flags.is_empty() {
            self.owners.push((self.owner, token, interest));
            self.fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
    }

    /// Adds an interest in the other end's close of the socket `fd`, or of its sending direction, also while
    /// data before that are not read. Leave it out once it has been reported.
    pub fn add_hangup(&mut self, token: usize, fd: BorrowedFd<'a>) {
        self.owners.push((self.owner, token, Interest::default()));
        self.fds.push(PollFd::from_borrowed_fd(fd, PEER_CLOSED));
    }

    /// Waits until a descriptor is ready or `timeout` (`None`: no limit) has passed, and appends the ready
    /// ones. A signal ends the wait early, with no descriptor ready.
    pub(crate) fn wait(
        mut self,
        timeout: Option<Duration>,
        ready: &mut Vec<(Owner, usize, Ready)>,
    ) -> io::Result<()> {
        self.ask(timeout, ready)
    }

    /// Like [`wait`](Self::wait), but can be repeated.
    pub(crate) fn ask(
        &mut self,
        timeout: Option<Duration>,
        ready: &mut Vec<(Owner, usize, Ready)>,
    ) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        match rustix::event::poll(&mut self.fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for (&(owner, token, interest), fd) in self.owners.iter().zip(&self.fds) {
            let flags = fd.revents();
            if flags.is_empty() {
                continue;
            }
            let over = flags.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
            ready.push((
                owner,
                token,
                Ready {
                    readable: flags.contains(PollFlags::IN) || (over && interest.read),
                    writable: flags.contains(PollFlags::OUT) || (over && interest.write),
                    hangup: flags.intersects(PollFlags::HUP | PollFlags::ERR | PEER_CLOSED),
                },
            ));
        }
        Ok(())
    }
}
