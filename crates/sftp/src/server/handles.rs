//! Files and directories that the client has open.

use std::io::IoSliceMut;

use bytes::Bytes;

use super::log::{FileEvent, FileOutcome};
use super::paths::is_at_or_below;
use crate::fs::{Directory, File};
use crate::{OpenFlags, PieceSum, ReadBack, RunningSum, StatusCode};

/// An open file and its usage record.
pub(super) struct OpenFile {
    pub(super) file: Box<dyn File>,
    pub(super) event: FileEvent,
    /// Sum over the bytes read or written through this handle, if the client has asked for it.
    pub(super) sum: Option<RunningSum>,
    /// Share of the written data that is read back for the sum.
    pub(super) read_back: ReadBack,
    /// Hidden name, if the file is hidden until it is closed and accepted.
    pub(super) held: Option<Held>,
    /// Whether the path still refers to this file, as far as the client's own requests tell.
    pub(super) named: bool,
}

impl OpenFile {
    pub(super) fn new(number: u64, file: Box<dyn File>, path: &[u8], flags: OpenFlags) -> Self {
        let event = FileEvent::new(number, path, flags);
        Self { file, event, sum: None, read_back: ReadBack::Whole, held: None, named: true }
    }

    /// Returns true if the file is open for writing and not hidden, and no request of the client has changed
    /// its path since it was opened.
    pub(super) fn is_writer(&self) -> bool {
        self.named && self.held.is_none() && self.event.flags.contains(OpenFlags::WRITE)
    }

    pub(super) fn did_read(&mut self, offset: u64, n: usize) {
        self.event.bytes_read += n as u64;
        self.event.start = self.event.start.min(offset);
    }

    pub(super) fn did_write(&mut self, offset: u64, n: usize) {
        self.event.bytes_written += n as u64;
        self.event.start = self.event.start.min(offset);
    }

    pub(super) fn failed(&mut self, code: StatusCode) {
        self.event.outcome = FileOutcome::Failed(code);
    }

    /// Returns true if reading at the offset of a WRITE returns the written bytes. It does not for files
    /// opened with APPEND and for devices. Reading back would then return older bytes, and their digest would
    /// reveal them to a client that may not read (`-P read`).
    pub(super) fn is_found_where_written(&mut self) -> bool {
        let flags = self.event.flags;
        !flags.contains(OpenFlags::WRITE)
            || (!flags.contains(OpenFlags::APPEND) && self.file.attrs().is_ok_and(|attrs| attrs.is_file()))
    }

    /// Adds the `len` bytes of `data` that were just written at `offset` to the sum, in the way that the
    /// client chose. If they cannot be read back, the sum is dropped.
    pub(super) fn sum_written(&mut self, offset: u64, data: &[Bytes], len: usize) {
        let Some(sum) = &mut self.sum else { return };
        let file = &mut self.file;
        let read = |at: u64, room: &mut [u8]| file.read_at(at, &mut [IoSliceMut::new(room)]);
        match PieceSum::of_written(self.read_back, offset, data, len, read) {
            Ok(piece) if piece.len() == len as u64 => sum.finish_piece(piece),
            Ok(_) | Err(_) => self.sum = None,
        }
    }
}

/// Hidden name of a file until it is closed and accepted.
pub(super) struct Held {
    pub(super) name: Vec<u8>,
    /// The file may replace an existing one.
    pub(super) replace: bool,
}

pub(super) struct OpenDir {
    pub(super) dir: Box<dyn Directory>,
    pub(super) path: Vec<u8>,
    /// Pattern for the names that are listed. Empty: all names.
    pub(super) pattern: Vec<u8>,
    /// Whether entries have the lines of `ls -l`.
    pub(super) long: bool,
}

pub(super) enum Open {
    File(OpenFile),
    Dir(OpenDir),
}

struct Slot {
    /// Number of handles this slot has had. A handle used after its CLOSE so cannot reach the slot's next
    /// file.
    generation: u32,
    open: Option<Open>,
}

/// All open handles. A handle is the slot's number and its generation, hexadecimal with a dot between them:
/// russh-sftp's client keeps handles as text, so other bytes come back changed. They are short, because each
/// request for a file has one.
#[derive(Default)]
pub(super) struct Handles {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Number of files opened so far.
    files: u64,
}

impl Handles {
    pub(super) const fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the number of the next file.
    pub(super) const fn number_file(&mut self) -> u64 {
        self.files += 1;
        self.files
    }

    /// Adds a handle. The caller has checked the limit of handles.
    pub(super) fn insert(&mut self, open: Open) -> Vec<u8> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, open: None });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let mut generation = 0;
        if let Some(place) = self.slots.get_mut(slot as usize) {
            place.generation = place.generation.wrapping_add(1);
            generation = place.generation;
            place.open = Some(open);
        }
        format!("{slot:x}.{generation:x}").into_bytes()
    }

    fn slot(&mut self, handle: &[u8]) -> Option<(u32, &mut Slot)> {
        let (slot, generation) = std::str::from_utf8(handle).ok()?.split_once('.')?;
        let number = |digits| u32::from_str_radix(digits, 16).ok();
        let (slot, generation) = (number(slot)?, number(generation)?);
        let place = self.slots.get_mut(slot as usize)?;
        (place.generation == generation && place.open.is_some()).then_some((slot, place))
    }

    pub(super) fn get(&mut self, handle: &[u8]) -> Option<&mut Open> {
        self.slot(handle)?.1.open.as_mut()
    }

    pub(super) fn file(&mut self, handle: &[u8]) -> Option<&mut OpenFile> {
        match self.get(handle)? {
            Open::File(file) => Some(file),
            Open::Dir(_) => None,
        }
    }

    /// Returns the files of two handles, or `None` unless they are different open files.
    pub(super) fn two_files(&mut self, a: &[u8], b: &[u8]) -> Option<(&mut OpenFile, &mut OpenFile)> {
        let a = self.slot(a)?.0 as usize;
        let b = self.slot(b)?.0 as usize;
        match self.slots.get_disjoint_mut([a, b]).ok()? {
            [Slot { open: Some(Open::File(a)), .. }, Slot { open: Some(Open::File(b)), .. }] => Some((a, b)),
            _ => None,
        }
    }

    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut OpenFile> {
        self.slots.iter_mut().filter_map(|slot| match &mut slot.open {
            Some(Open::File(file)) => Some(file),
            Some(Open::Dir(_)) | None => None,
        })
    }

    /// Returns the last opened file that the client writes under this path.
    pub(super) fn written_at(&mut self, path: &[u8]) -> Option<&mut OpenFile> {
        let writers = self.files().filter(|file| file.event.path == path && file.is_writer());
        writers.max_by_key(|file| file.event.number)
    }

    /// Records that the client changed the file that `path` refers to: it and all paths below it no longer
    /// belong to the open files.
    pub(super) fn forget_names(&mut self, path: &[u8]) {
        for file in self.files().filter(|file| is_at_or_below(&file.event.path, path)) {
            file.named = false;
        }
    }

    pub(super) fn remove(&mut self, handle: &[u8]) -> Option<Open> {
        let (number, slot) = self.slot(handle)?;
        let open = slot.open.take();
        self.free.push(number);
        open
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Open> {
        self.free.clear();
        std::mem::take(&mut self.slots).into_iter().filter_map(|slot| slot.open)
    }
}
