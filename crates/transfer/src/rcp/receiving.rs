//! A file whose data come: held back a little, written, and finished.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::time::Instant;

use bytes::Bytes;
use lh_sys::errno_text;
use rustix::fs::{Timespec, Timestamps};

use crate::end::Times;

use super::Event;

/// Received file data that are held back to be written in one call.
const WRITE_BATCH: usize = 256 * 1024;

/// Pieces given to one call: what the kernel takes.
const MOST_SLICES: usize = 1024;

/// A file whose data come.
pub(super) struct Receiving {
    pub(super) id: u64,
    pub(super) name: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) file: File,
    /// The existing target was not a plain file and cannot be cut to length.
    pub(super) special: bool,
    pub(super) mode: Option<u32>,
    pub(super) times: Option<Times>,
    pub(super) size: u64,
    pub(super) left: u64,
    /// Data that are not written yet.
    pub(super) pieces: VecDeque<Bytes>,
    pub(super) held: usize,
    pub(super) started: Instant,
    /// The first thing that went wrong; the rest is taken and dropped.
    pub(super) fault: Option<String>,
}

impl Receiving {
    /// Message for users when it is given up.
    pub(super) fn failed(self, why: String) -> Event {
        let Self { path, size, left, started, .. } = self;
        Event::FileFailed { path, moved: size - left, started, why }
    }

    pub(super) fn take(&mut self, data: Bytes) {
        self.left = self.left.saturating_sub(data.len() as u64);
        if self.fault.is_none() {
            self.held += data.len();
            self.pieces.push_back(data);
            if self.held >= WRITE_BATCH {
                self.write();
            }
        }
    }

    /// Writes what is held back.
    pub(super) fn write(&mut self) {
        while !self.pieces.is_empty() && self.fault.is_none() {
            let slices: Vec<IoSlice<'_>> =
                self.pieces.iter().take(MOST_SLICES).map(|piece| IoSlice::new(piece)).collect();
            match self.file.write_vectored(&slices) {
                Ok(0) => self.fault = Some("No space left on device".to_owned()),
                Ok(written) => self.written(written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.fault = Some(errno_text(&error)),
            }
        }
        self.pieces.clear();
        self.held = 0;
    }

    fn written(&mut self, mut n: usize) {
        while let Some(front) = self.pieces.front_mut() {
            if n < front.len() {
                return bytes::Buf::advance(front, n);
            }
            n -= front.len();
            self.pieces.pop_front();
        }
    }

    /// Length, mode and times, then closes it.
    pub(super) fn finish(&mut self) {
        let fault = &mut self.fault;
        let mut note = |what: &str, result: io::Result<()>| {
            if let (Err(error), None) = (result, &*fault) {
                *fault = Some(format!("{what}: {}", errno_text(&error)));
            }
        };
        if !self.special {
            note("truncate", self.file.set_len(self.size - self.left));
        }
        if let Some(mode) = self.mode {
            let mode = crate::local::mode_of(mode);
            note("set mode", rustix::fs::fchmod(&self.file, mode).map_err(Into::into));
        }
        if let Some(times) = self.times {
            note("set times", rustix::fs::futimens(&self.file, &timestamps(times)).map_err(Into::into));
        }
    }
}

/// Converts times to the kernel's form.
pub(super) fn timestamps(times: Times) -> Timestamps {
    let spec = |(seconds, nanoseconds): (i64, u32)| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::from(nanoseconds) as _,
    };
    Timestamps { last_access: spec(times.access), last_modification: spec(times.modification) }
}
