//! Waiting for descriptors.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::handler::{HandlerId, SourceId};

/// What somebody waits for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Bytes to read, the end of them, or an error.
    pub read: bool,
    /// Room to write, or an error.
    pub write: bool,
}

impl Interest {
    /// Readable.
    pub const READ: Self = Self { read: true, write: false };
    /// Writable.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Either.
    pub const BOTH: Self = Self { read: true, write: true };
}

/// What a descriptor is ready for. An error or hang-up shows as whatever was waited for: the next call on the
/// descriptor tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready {
    /// Reading will not block.
    pub readable: bool,
    /// Writing will not block.
    pub writable: bool,
    /// Nobody is left at the other end.
    pub hangup: bool,
}

/// Who waits: tells the driver whom to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Link,
    Control,
    /// Slot, and who was in it: the slot may have another handler when readiness is served.
    Handler(usize, HandlerId),
    Source(SourceId),
}

/// The descriptors somebody wants to wait for.
pub struct Interests<'a> {
    owner: Owner,
    who: Vec<(Owner, usize, Interest)>,
    fds: Vec<PollFd<'a>>,
}

impl<'a> Interests<'a> {
    pub(crate) fn new() -> Self {
        Self { owner: Owner::Link, who: Vec::new(), fds: Vec::new() }
    }

    /// What is added from now on belongs to `owner`.
    pub(crate) const fn set_owner(&mut self, owner: Owner) {
        self.owner = owner;
    }

    /// Waits for `interest` on `fd`; `token` comes back with the readiness. An empty interest is left out, so
    /// that a hang-up nobody waits for does not wake the loop over and over.
    pub fn add(&mut self, token: usize, fd: BorrowedFd<'a>, interest: Interest) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, interest.read);
        flags.set(PollFlags::OUT, interest.write);
        if !flags.is_empty() {
            self.who.push((self.owner, token, interest));
            self.fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
    }

    /// Waits until something is ready or `timeout` (`None`: for ever) is over, and appends what is ready.
    /// A signal ends the wait early, with nothing ready.
    pub(crate) fn wait(
        mut self,
        timeout: Option<Duration>,
        ready: &mut Vec<(Owner, usize, Ready)>,
    ) -> io::Result<()> {
        self.ask(timeout, ready)
    }

    /// [`wait`](Self::wait), as often as one likes.
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
        for (&(owner, token, interest), fd) in self.who.iter().zip(&self.fds) {
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
                    hangup: flags.intersects(PollFlags::HUP | PollFlags::ERR),
                },
            ));
        }
        Ok(())
    }
}
