//! Usage of a command or shell: the bytes of its channel and the files it reports, for the log of transfers.

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

/// Largest part of a command's file reports that is read, bytes: some hundred thousand files.
const MOST_SAID: usize = 16 << 20;

/// A running command, its start time and the bytes it has read and written.
pub(super) struct Work {
    command: Vec<u8>,
    since: Instant,
    moved: (u64, u64),
    files: Option<Files>,
}

/// The file in which our remote `scp` reports the files it copies ([`lh_metrics::copied`]).
pub(super) struct Files(File);

impl Files {
    /// Creates the file for a remote `scp`; `None` for any other command, and where the kernel has no memfd.
    pub(super) fn of(command: &[u8]) -> Option<Self> {
        legacy_scp(std::str::from_utf8(command).ok()?)?;
        let file = memfd_create("copied", MemfdFlags::CLOEXEC).ok()?;
        Some(Self(file.into()))
    }

    /// Returns a descriptor for the command, and the environment variable that names it.
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
    /// `command` is its name in the log.
    pub(super) const fn new(command: Vec<u8>, files: Option<Files>, now: Instant) -> Self {
        Self { command, since: now, moved: (0, 0), files }
    }

    /// Stores the channel's byte counts, which are lost when it is closed.
    pub(super) fn count(&mut self, cx: &mut ChannelCx<'_>) {
        self.moved = cx.moved().unwrap_or(self.moved);
    }

    /// Returns the records when the channel is closed: one for each reported file, or else one for the whole
    /// command. The program may still run.
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
