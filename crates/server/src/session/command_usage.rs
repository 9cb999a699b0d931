//! A command or shell and what its channel carries, for the log of transfers.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use lh_driver::ChannelCx;
use lh_metrics::copied::{Copied, VARIABLE};
use lh_sys::child::Ended;
use rustix::fs::{MemfdFlags, memfd_create};

use super::usage_log::legacy_scp;
use crate::usage::{Kind, Outcome, Transfer};

/// So much of what a command says about files is read: some hundred thousand of them.
const MOST_SAID: usize = 16 << 20;

/// What runs, since when, and what it has read and written.
pub(super) struct Work {
    command: Vec<u8>,
    since: Instant,
    moved: (u64, u64),
    files: Option<Files>,
}

/// What a remote `scp` of ours writes of the files it moves ([`lh_metrics::copied`]).
pub(super) struct Files(File);

impl Files {
    /// For a command that is a remote `scp`; `None` for any other, and where the kernel has no such files.
    pub(super) fn of(command: &[u8]) -> Option<Self> {
        legacy_scp(std::str::from_utf8(command).ok()?)?;
        let file = memfd_create("copied", MemfdFlags::CLOEXEC).ok()?;
        Some(Self(file.into()))
    }

    /// The descriptor for the command, and the variable that names it.
    pub(super) fn for_command(&self) -> io::Result<(OwnedFd, (&'static str, String))> {
        let fd = OwnedFd::from(self.0.try_clone()?);
        let number = fd.as_raw_fd().to_string();
        Ok((fd, (VARIABLE, number)))
    }

    fn transfers(&self) -> Vec<Transfer> {
        let length = self.0.metadata().map_or(0, |meta| meta.len());
        let mut said = vec![0; usize::try_from(length).unwrap_or(MOST_SAID).min(MOST_SAID)];
        if self.0.read_exact_at(&mut said, 0).is_err() {
            return Vec::new();
        }
        let transfer = |copied: Copied| {
            let Copied { path, upload, bytes, micros, fault } = copied;
            let (bytes_in, bytes_out) = if upload { (bytes, 0) } else { (0, bytes) };
            let outcome = fault.map_or(Outcome::Complete, Outcome::Failed);
            Transfer { kind: Kind::Scp, path, upload, bytes_in, bytes_out, start: 0, micros, outcome }
        };
        Copied::decode_all(&said).into_iter().map(transfer).collect()
    }
}

impl Work {
    /// `command` is what the log shows.
    pub(super) const fn new(command: Vec<u8>, files: Option<Files>, now: Instant) -> Self {
        Self { command, since: now, moved: (0, 0), files }
    }

    /// Remembers what the channel has carried: its counts are gone when it is closed.
    pub(super) fn count(&mut self, cx: &mut ChannelCx<'_>) {
        self.moved = cx.moved().unwrap_or(self.moved);
    }

    /// The account, when the channel is closed: of each file where the command has told of any, else of the whole. The program may go
    /// on without it.
    pub(super) fn transfers(self, ended: Option<Ended>) -> Vec<Transfer> {
        let files = self.files.as_ref().map(Files::transfers).unwrap_or_default();
        if files.is_empty() { vec![self.transfer(ended)] } else { files }
    }

    fn transfer(self, ended: Option<Ended>) -> Transfer {
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
