//! A command or shell and what its channel carries, for the log of transfers.

use std::time::Instant;

use lh_driver::ChannelCx;
use lh_sys::child::Ended;

use crate::figures::{Kind, Outcome, Transfer};

/// What runs, since when, and what it has read and written.
pub(super) struct Work {
    command: Vec<u8>,
    since: Instant,
    moved: (u64, u64),
}

impl Work {
    /// `command` is what the log shows.
    pub(super) const fn new(command: Vec<u8>, now: Instant) -> Self {
        Self { command, since: now, moved: (0, 0) }
    }

    /// Remembers what the channel has carried: when it is closed nobody knows any more.
    pub(super) fn count(&mut self, cx: &mut ChannelCx<'_>) {
        let id = cx.id();
        self.moved = cx.control().connection().moved(id).unwrap_or(self.moved);
    }

    /// The account, when the channel is closed. The program may go on without it.
    pub(super) fn transfer(self, ended: Option<Ended>) -> Transfer {
        let (bytes_in, bytes_out) = self.moved;
        let outcome = match ended {
            None => Outcome::Abandoned,
            Some(Ended::Exit(0)) => Outcome::Complete,
            Some(Ended::Exit(status)) => Outcome::Failed(format!("exit status {status}")),
            Some(Ended::Signal { number, .. }) => {
                Outcome::Failed(format!("signal {}", lh_sys::signals::name_of(number)))
            }
        };
        Transfer {
            kind: Kind::Command,
            path: self.command,
            upload: false,
            bytes_in,
            bytes_out,
            start: 0,
            micros: u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX),
            outcome,
        }
    }
}
