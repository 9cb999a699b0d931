//! `put-files@longhaul` and `get-files@longhaul`: whole small files, many in a message.
//!
//! They do what OPEN, WRITE or READ, FSETSTAT and CLOSE would, file by file, with the same rights, log lines and accounts; an
//! administrator who refuses one of those refuses these too (see the table of requests).

use std::io::{self, IoSlice, IoSliceMut};

use lh_wire::{Reader, Writer};

use super::Server;
use super::handles::{Open, OpenFile};
use super::log::Shown;
use crate::batch::{
    GET_BUDGET, GET_OVERHEAD, GetFile, Got, GotFile, MAX_FILES, PUT_PERMISSIONS, PutFailure, PutFile,
    PutStep, write_got,
};
use crate::fs::{status_of, text_of};
use crate::server::LogLevel;
use crate::{Attrs, OpenFlags, StatusCode};

impl Server {
    pub(super) fn serve_put_files(&mut self, id: u32, flags: u32, count: u32, fields: &[u8]) {
        if flags & !PUT_PERMISSIONS != 0 {
            return self.reply_status(id, StatusCode::OP_UNSUPPORTED);
        }
        let Some(files) = read_all(fields, count, PutFile::read) else {
            return self.reply_status(id, StatusCode::BAD_MESSAGE);
        };
        let mut failures = Vec::new();
        for (index, file) in (0..).zip(&files) {
            if let Err((step, error)) = self.put_file(file, flags & PUT_PERMISSIONS != 0) {
                let (code, text) = (status_of(&error), text_of(&error));
                self.log_line(LogLevel::Info, format_args!("sent status {text}"));
                failures.push(PutFailure { index, step, code, text });
            }
        }
        self.did_extra_work(files.len());
        self.reply().extended(id, |out| PutFailure::write_all(&failures, out));
    }

    fn put_file(&mut self, file: &PutFile<'_>, set_permissions: bool) -> Result<(), (PutStep, io::Error)> {
        let flags = OpenFlags::WRITE | OpenFlags::CREAT;
        let permissions = file.attrs.permissions.map_or(0o666, |bits| bits & 0o7777);
        self.log_open(file.path, flags, permissions);
        let opened = self.room_to_open().and_then(|()| self.open_file(file.path, flags, permissions));
        let mut open = opened.map_err(|error| (PutStep::Open, error))?;
        let written = write_whole(&mut open, file.data);
        let outcome = match written {
            Ok(()) => {
                let permissions = file.attrs.permissions.filter(|_| set_permissions);
                let attrs = Attrs { permissions, times: file.attrs.times, ..Attrs::NONE };
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
        outcome
    }

    pub(super) fn serve_get_files(&mut self, id: u32, flags: u32, count: u32, fields: &[u8]) {
        if flags != 0 {
            return self.reply_status(id, StatusCode::OP_UNSUPPORTED);
        }
        let files = read_all(fields, count, GetFile::read);
        let size = |file: &GetFile<'_>| file.len as usize + GET_OVERHEAD;
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
        Ok(GotFile { attrs, whole, data: room.get(..len).unwrap_or_default() })
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
