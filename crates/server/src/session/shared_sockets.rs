//! Requests of other processes than the connection's own to the monitor: monitors of connections that resume
//! the session, `longhaul sessions`, and later listeners.

use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

use rustix::event::PollFd;

use super::listed::{self, Listed, Notices};
use super::resumable::{Ended, Resumable};
use crate::monitor::Monitor;

/// Why the session must end.
pub(super) enum EndReason {
    /// Its user has lost the right to it.
    Refused,
    /// Too many sessions wait, so this one must end.
    Dismissed,
    /// The user with this id has ended it (`longhaul sessions`).
    Ended(u32),
}

/// The sockets on which other processes than the connection's own reach the monitor.
pub(super) struct SharedSockets {
    /// `Some` where the session may outlive its connection.
    pub(super) resumable: Option<Resumable>,
    /// `Some` where the session can be listed and ended (`longhaul sessions`).
    pub(super) listed: Option<Listed>,
}

impl SharedSockets {
    /// Adds the descriptors to poll.
    pub(super) fn interests<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if let Some(resumable) = &self.resumable {
            resumable.interests(fds);
        }
        if let Some(listed) = &self.listed {
            listed.interests(fds);
        }
    }

    /// Returns the time at which to call [`serve`](Self::serve) even if no descriptor is ready.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let resumable = self.resumable.as_ref().and_then(Resumable::deadline);
        let listed = self.listed.as_ref().and_then(Listed::deadline);
        [resumable, listed].into_iter().flatten().min()
    }

    /// Returns the socket to the listener that counts the session.
    pub(super) fn notices<'a>(&'a self, control: &'a File) -> Notices<'a> {
        notices(self.listed.as_ref(), control)
    }

    /// Reads what the user session process, which has ended, reported last about its connections.
    pub(super) fn hear_last(&mut self, monitor: &mut Monitor, control: &File) {
        let Self { resumable, listed } = self;
        if let Some(resumable) = resumable {
            resumable.hear_last(monitor, &mut notices(listed.as_ref(), control));
        }
    }

    /// Handles all pending requests without blocking. `known`: the connection has a network address.
    pub(super) fn serve(
        &mut self,
        monitor: &mut Monitor,
        control: &File,
        known: bool,
    ) -> Result<(), EndReason> {
        let Self { resumable, listed } = self;
        if let Some(resumable) = resumable {
            let mut notices = notices(listed.as_ref(), control);
            resumable.serve(monitor, &mut notices).map_err(|_: Ended| EndReason::Refused)?;
        }
        let Some(listed) = listed else { return Ok(()) };
        let now = listed::Now {
            peer: known.then(|| monitor.peer()),
            is_resumable: resumable.is_some(),
            wait: resumable.as_ref().and_then(Resumable::wait),
        };
        match listed.serve(&now, control) {
            None => {}
            Some(listed::Order::Adopted) => {
                // A listener that has ended counts nothing.
                let _ = listed.notices(control).write_all(&monitor.counted());
                if let Some(resumable) = resumable {
                    resumable.notify(&mut listed.notices(control));
                }
            }
            Some(listed::Order::Dismissed) => return Err(EndReason::Dismissed),
            Some(listed::Order::End(uid)) => return Err(EndReason::Ended(uid)),
        }
        Ok(())
    }
}

fn notices<'a>(listed: Option<&'a Listed>, control: &'a File) -> Notices<'a> {
    listed.map_or(Notices::to_own(control), |listed| listed.notices(control))
}
