//! What the monitor answers to other processes than the connection's own: monitors of connections that take the session
//! over, `longhaul sessions`, and listeners that were started later.

use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

use rustix::event::PollFd;

use super::listed::{self, Listed, Notices};
use super::resumable::{Ended, Resumable};
use crate::monitor::Monitor;

/// Why the session is to end.
pub(super) enum Over {
    /// Its user may not have it any more.
    Refused,
    /// Too many sessions wait.
    Dismissed,
    /// The user with this id wants it to.
    Ended(u32),
}

/// What other processes than the connection's own may ask about the session.
pub(super) struct Lasting {
    /// Present where it may outlive its connection.
    pub(super) resumable: Option<Resumable>,
    /// Present where it can be listed and ended (`longhaul sessions`).
    pub(super) listed: Option<Listed>,
}

impl Lasting {
    /// Lists what to wait for.
    pub(super) fn interests<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        if let Some(resumable) = &self.resumable {
            resumable.interests(fds);
        }
        if let Some(listed) = &self.listed {
            listed.interests(fds);
        }
    }

    /// Time at which to call [`serve`](Self::serve) though nothing has come.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let resumable = self.resumable.as_ref().and_then(Resumable::deadline);
        let listed = self.listed.as_ref().and_then(Listed::deadline);
        [resumable, listed].into_iter().flatten().min()
    }

    /// The way to the listener that counts the session.
    pub(super) fn notices<'a>(&'a self, control: &'a File) -> Notices<'a> {
        notices(self.listed.as_ref(), control)
    }

    /// Does what is there to be done, without waiting. `known`: the connection has an address.
    pub(super) fn serve(&mut self, monitor: &mut Monitor, control: &File, known: bool) -> Result<(), Over> {
        let Self { resumable, listed } = self;
        if let Some(resumable) = resumable {
            let mut notices = notices(listed.as_ref(), control);
            resumable.serve(monitor, &mut notices).map_err(|_: Ended| Over::Refused)?;
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
                if let Some(user) = monitor.counted() {
                    // A listener that is gone counts nothing.
                    let _ = listed.notices(control).write_all(&user.encode());
                }
                if let Some(resumable) = resumable {
                    resumable.notify(&mut listed.notices(control));
                }
            }
            Some(listed::Order::Dismissed) => return Err(Over::Dismissed),
            Some(listed::Order::End(uid)) => return Err(Over::Ended(uid)),
        }
        Ok(())
    }
}

fn notices<'a>(listed: Option<&'a Listed>, control: &'a File) -> Notices<'a> {
    listed.map_or(Notices::to_own(control), |listed| listed.notices(control))
}
