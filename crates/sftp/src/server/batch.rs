//! `get-files@longhaul`: many whole small files in one message. [`super::put`] uses parts of this file.
//!
//! Both requests do the work of OPEN, WRITE or READ, FSETSTAT and CLOSE for each file, with the same
//! permissions, log lines and usage records. If the administrator refuses one of those requests, the server
//! also refuses these (see the table of requests).

use std::io::{self, IoSliceMut};

use lh_wire::{Reader, Writer};

use super::handles::{Open, OpenFile};
use super::uploads::Links;
use super::{LogLevel, Server};
use crate::batch::{GET_BUDGET, GetFile, Got, GotFile, MAX_FILES, write_got};
use crate::extended_attrs::Xattrs;
use crate::fs::{status_of, text_of};
use crate::{Attrs, OpenFlags, StatusCode, batched_extended_attrs};

impl Server {
    pub(super) fn serve_get_files(&mut self, id: u32, flags: u32, count: u32, fields: &[u8]) {
        let known =
            if self.options.permits_named("get-kept") { batched_extended_attrs::GET_KINDS } else { 0 };
        if flags & !known != 0 {
            return self.reply_status(id, StatusCode::OP_UNSUPPORTED);
        }
        let files = read_all(fields, count, GetFile::read);
        let overhead = self.get_overhead() + if flags == 0 { 0 } else { batched_extended_attrs::MOST };
        let size = |file: &GetFile<'_>| file.len as usize + overhead;
        let Some(files) = files.filter(|files| files.iter().map(size).sum::<usize>() <= GET_BUDGET) else {
            return self.reply_status(id, StatusCode::BAD_MESSAGE);
        };
        self.reply_while(|server, mut reply| {
            reply.extended(id, |reply| {
                reply.put_u32(count);
                let mut room = Vec::new();
                for file in &files {
                    room.resize(file.len as usize, 0);
                    server.write_file(file, &mut room, flags, reply);
                }
            });
        });
        self.pace.served_files(count);
    }

    /// Appends one file to the reply, or the reason why it could not be read.
    fn write_file(&mut self, file: &GetFile<'_>, room: &mut [u8], kinds: u32, reply: &mut Vec<u8>) {
        let mut xattrs = None;
        let got: Got<'_> = self.get_file(file, room, kinds, &mut xattrs).map_err(|error| {
            let (code, text) = (status_of(&error), text_of(&error));
            self.log.line(LogLevel::Info, format_args!("sent status {text}"));
            (code, text)
        });
        write_got(&got, reply);
        if kinds != 0 && got.is_ok() {
            batched_extended_attrs::write_got(xattrs.as_ref(), reply);
        }
    }

    /// Reads one file. Sets `xattrs` to the extended attributes of the `kinds`, where they can be read.
    fn get_file<'b>(
        &mut self,
        file: &GetFile<'_>,
        room: &'b mut [u8],
        kinds: u32,
        xattrs: &mut Option<Xattrs>,
    ) -> io::Result<GotFile<'b>> {
        self.log.open(file.path, OpenFlags::READ, 0o666);
        self.room_to_open()?;
        let mut open = self.open_file(file.path, OpenFlags::READ, 0o666, Links::Followed)?;
        let got = read_whole(&mut open, room);
        if kinds != 0 {
            *xattrs = open.file.xattrs(kinds).ok();
        }
        if let Err(error) = &got {
            open.failed(status_of(error));
        }
        self.log.close(&mut Open::File(open), false);
        let (attrs, whole, len) = got?;
        Ok(GotFile {
            attrs: attrs.told(self.client.wanted),
            whole,
            data: room.get(..len).unwrap_or_default(),
        })
    }
}

/// Reads exactly `count` items. Returns `None` if a field is missing or bytes follow the last item.
pub(super) fn read_all<'a, T>(
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

/// Returns the modification time in seconds and nanoseconds, or with 0 ns if only seconds are known.
fn modified(attrs: &Attrs) -> Option<(i64, u32)> {
    match attrs.full_times {
        Some(times) => Some(times.modification),
        None => attrs.times.map(|(_, modification)| (modification.into(), 0)),
    }
}

/// Fills `room` from the start of the file. Returns the attributes, whether `room` holds the whole file, and
/// the number of bytes read.
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
    // A file that changed during the read is not whole: the client copies it in a separate transfer.
    let after = open.file.attrs()?;
    let changed = after.size != attrs.size || modified(&after) != modified(&attrs);
    // Files in /proc have a size of 0, but content.
    let whole = !changed && (ended || attrs.size.is_some_and(|size| size > 0 && size <= len as u64));
    Ok((if changed { after } else { attrs }, whole, len))
}
