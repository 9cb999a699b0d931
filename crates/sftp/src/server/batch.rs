//! `put-files@longhaul` and `get-files@longhaul`: whole small files, many in a message.
//!
//! They do what OPEN, WRITE or READ, FSETSTAT and CLOSE would, file by file, with the same rights, log lines and accounts; an
//! administrator who refuses one of those refuses these too (see the table of requests).

use std::io::{self, IoSlice, IoSliceMut};

use lh_wire::{Reader, Writer};

use super::handles::{Open, OpenFile};
use super::log::Shown;
use super::{Server, request_table};
use crate::batch::{
    GET_BUDGET, GetFile, Got, GotFile, MAX_FILES, PUT_COMPARED, PUT_OVER_LINKS, PUT_PERMISSIONS, PUT_PLACED,
    PutFailure, PutFile, PutStep, write_got,
};
use crate::fs::{FileSystem, status_of, text_of};
use crate::server::LogLevel;
use crate::{Attrs, OpenFlags, StatusCode};

/// The end of the names under which files grow, and how much of the final name they keep.
const PART_SUFFIX: &[u8] = b".lhpart";
const LONGEST_PART: usize = 240;

impl Server {
    pub(super) fn serve_put_files(&mut self, id: u32, flags: u32, count: u32, fields: &[u8]) {
        if flags & !(PUT_PERMISSIONS | PUT_PLACED | PUT_COMPARED | PUT_OVER_LINKS) != 0 {
            return self.reply_status(id, StatusCode::OP_UNSUPPORTED);
        }
        let Some(files) = read_all(fields, count, PutFile::read) else {
            return self.reply_status(id, StatusCode::BAD_MESSAGE);
        };
        let mut failures = Vec::new();
        for (index, file) in (0..).zip(&files) {
            if let Err((step, error)) = self.put_file(file, flags) {
                let (code, text) = (status_of(&error), text_of(&error));
                self.log_line(LogLevel::Info, format_args!("sent status {text}"));
                failures.push(PutFailure { index, step, code, text });
            }
        }
        self.did_extra_work(files.len());
        self.reply().extended(id, |out| PutFailure::write_all(&failures, out));
    }

    fn put_file(&mut self, file: &PutFile<'_>, options: u32) -> Result<(), (PutStep, io::Error)> {
        let permissions = file.attrs.permissions.map_or(0o666, |bits| bits & 0o7777);
        let place = if options & PUT_PLACED != 0 { self.place_for(file.path, options) } else { None };
        let mut part = None;
        if let Some((name, old)) = place {
            part = self.open_part(&name, file.path, old, permissions).map(|open| (name, old, open));
        }
        let flags = OpenFlags::WRITE | OpenFlags::CREAT;
        let (part, mut open) = match part {
            Some((name, old, open)) => (Some((name, old)), open),
            None => {
                // What is compared has to be read, which a file that is there may not allow.
                self.log_open(file.path, flags, permissions);
                let opened = self.room_to_open();
                let opened = opened.and_then(|()| self.open_file(file.path, flags, permissions));
                (None, opened.map_err(|error| (PutStep::Open, error))?)
            }
        };
        let compared = part.is_some() && options & PUT_COMPARED != 0;
        let written = write_whole(&mut open, file.data)
            .and_then(|()| if compared { compare(&mut open, file.data) } else { Ok(()) });
        let mut outcome = match written {
            Ok(()) => {
                let old = part.as_ref().and_then(|(_, old)| old.as_ref()).and_then(|old| old.permissions);
                let wanted = file.attrs.permissions.filter(|_| options & PUT_PERMISSIONS != 0);
                let permissions = wanted.or(old.map(|bits| bits & 0o7777));
                let Attrs { times, full_times, .. } = file.attrs;
                let attrs = Attrs { permissions, times, full_times, ..Attrs::NONE };
                if attrs == Attrs::NONE {
                    Ok(())
                } else {
                    self.log_set(file.path, &attrs);
                    open.file.set_attrs(&attrs).map_err(|error| (PutStep::Attributes, error))
                }
            }
            Err(error) => {
                open.failed(status_of(&error));
                Err((PutStep::Write, error))
            }
        };
        self.log_close(Open::File(open), false);
        if let Some((name, _)) = part {
            if outcome.is_ok() {
                outcome = self.fs.rename(&name, file.path, true).map_err(|error| (PutStep::Write, error));
            }
            if outcome.is_err() {
                let _ = self.fs.remove_file(&name);
            }
        }
        outcome
    }

    /// The name under which a file grows, and what it will replace; `None` where it has to be written in place.
    fn place_for(&mut self, path: &[u8], options: u32) -> Option<(Vec<u8>, Option<Attrs>)> {
        let may = |name| request_table().iter().any(|info| info.name == name && self.options.permits(info));
        if !(may("posix-rename") && may("remove") && may("lstat")) {
            return None;
        }
        let old = match self.fs.attrs(path, false) {
            Ok(attrs) if attrs.is_file() && attrs.inode.is_none_or(|inode| inode.links < 2) => Some(attrs),
            Ok(attrs) if attrs.is_symlink() && options & PUT_OVER_LINKS != 0 => None,
            Err(error) if status_of(&error) == StatusCode::NO_SUCH_FILE => None,
            _ => return None,
        };
        let start = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let (folder, name) = path.split_at(start);
        let name = name.get(..name.len().min(LONGEST_PART)).unwrap_or(name);
        Some(([folder, b".", name, PART_SUFFIX].concat(), old))
    }

    /// Opens it, as the owner of what it replaces; `None` where that cannot be.
    fn open_part(
        &mut self,
        name: &[u8],
        path: &[u8],
        old: Option<Attrs>,
        permissions: u32,
    ) -> Option<OpenFile> {
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::EXCL;
        self.room_to_open().ok()?;
        self.log_open(path, flags, permissions);
        let open = |fs: &mut dyn FileSystem| fs.open(name, flags, Some(permissions));
        let mut file = open(&mut *self.fs)
            .or_else(|_| {
                // Left by somebody who was interrupted.
                self.fs.remove_file(name)?;
                open(&mut *self.fs)
            })
            .ok()?;
        if let Some(ids) = old.and_then(|old| old.ids)
            && file.attrs().ok().and_then(|attrs| attrs.ids) != Some(ids)
            && file.set_attrs(&Attrs { ids: Some(ids), ..Attrs::NONE }).is_err()
        {
            let _ = self.fs.remove_file(name);
            return None;
        }
        // In logs and accounts it has its final name.
        let number = self.handles.number_file();
        self.log.file_opened(number);
        Some(OpenFile::new(number, file, path, flags))
    }

    pub(super) fn serve_get_files(&mut self, id: u32, flags: u32, count: u32, fields: &[u8]) {
        if flags != 0 {
            return self.reply_status(id, StatusCode::OP_UNSUPPORTED);
        }
        let files = read_all(fields, count, GetFile::read);
        let overhead = self.get_overhead();
        let size = |file: &GetFile<'_>| file.len as usize + overhead;
        let Some(files) = files.filter(|files| files.iter().map(size).sum::<usize>() <= GET_BUDGET) else {
            return self.reply_status(id, StatusCode::BAD_MESSAGE);
        };
        let mut reply = Vec::new();
        reply.put_u32(count);
        let mut room = Vec::new();
        for file in &files {
            room.resize(file.len as usize, 0);
            let got: Got<'_> = self.get_file(file, &mut room).map_err(|error| {
                let (code, text) = (status_of(&error), text_of(&error));
                self.log_line(LogLevel::Info, format_args!("sent status {text}"));
                (code, text)
            });
            write_got(&got, &mut reply);
        }
        self.did_extra_work(files.len());
        self.reply().extended(id, |out| out.put_bytes(&reply));
    }

    fn get_file<'b>(&mut self, file: &GetFile<'_>, room: &'b mut [u8]) -> io::Result<GotFile<'b>> {
        self.log_open(file.path, OpenFlags::READ, 0o666);
        self.room_to_open()?;
        let mut open = self.open_file(file.path, OpenFlags::READ, 0o666)?;
        let got = read_whole(&mut open, room);
        if let Err(error) = &got {
            open.failed(status_of(error));
        }
        self.log_close(Open::File(open), false);
        let (attrs, whole, len) = got?;
        Ok(GotFile { attrs: attrs.told(self.wanted), whole, data: room.get(..len).unwrap_or_default() })
    }

    fn room_to_open(&self) -> io::Result<()> {
        if self.handles_left() { Ok(()) } else { Err(io::Error::other("Too many open files")) }
    }

    pub(super) fn log_open(&mut self, path: &[u8], flags: OpenFlags, permissions: u32) {
        self.log_line(
            LogLevel::Info,
            format_args!("open \"{}\" flags {flags} mode 0{permissions:o}", Shown(path)),
        );
    }
}

/// Exactly `count` things and nothing behind them.
fn read_all<'a, T>(
    fields: &'a [u8],
    count: u32,
    read: impl Fn(&mut Reader<'a>) -> lh_wire::Result<T>,
) -> Option<Vec<T>> {
    let count = usize::try_from(count).ok().filter(|&count| count <= MAX_FILES)?;
    let mut reader = Reader::new(fields);
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(read(&mut reader).ok()?);
    }
    reader.is_empty().then_some(all)
}

/// Fails unless the file holds what was written.
fn compare(open: &mut OpenFile, data: &[u8]) -> io::Result<()> {
    let mut back = vec![0; data.len()];
    let mut done = 0;
    while let Some(rest) = back.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match open.file.read_at(done as u64, &mut [IoSliceMut::new(rest)])? {
            0 => break,
            n => done += n,
        }
    }
    if done == data.len() && back == data {
        return Ok(());
    }
    Err(io::Error::other("what was written is not what was sent"))
}

/// Writes `data` over what is there and cuts the file behind it, or behind what could be written.
fn write_whole(open: &mut OpenFile, data: &[u8]) -> io::Result<()> {
    let mut done = 0;
    let mut outcome = Ok(());
    while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
        match open.file.write_at(done as u64, &[IoSlice::new(rest)]) {
            Ok(0) => outcome = Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n.min(rest.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => outcome = Err(error),
        }
        if outcome.is_err() {
            break;
        }
    }
    open.did_write(0, done);
    let attrs = open.file.attrs()?;
    if attrs.is_file() && attrs.size.is_some_and(|size| size > done as u64) {
        let cut = open.file.set_attrs(&Attrs { size: Some(done as u64), ..Attrs::NONE });
        return outcome.and(cut);
    }
    outcome
}

/// Fills `room` from the file; says whether the file ends there.
fn read_whole(open: &mut OpenFile, room: &mut [u8]) -> io::Result<(Attrs, bool, usize)> {
    let attrs = open.file.attrs()?;
    if !attrs.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut len = 0;
    let mut ended = false;
    while let Some(rest) = room.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match open.file.read_at(len as u64, &mut [IoSliceMut::new(rest)]) {
            Ok(0) => {
                ended = true;
                break;
            }
            Ok(n) => len += n.min(rest.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    open.did_read(0, len);
    // A size of 0 may be that of a file in /proc, which says nothing.
    let whole = ended || attrs.size.is_some_and(|size| size > 0 && size <= len as u64);
    Ok((attrs, whole, len))
}
