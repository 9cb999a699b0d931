//! `put-files@longhaul`: whole small files, many in a message.
//!
//! Three ways to a file, the first that can be: without a name until it is complete, where nothing is there yet; under another name
//! beside the final one, and renamed; in place. Only the last can be seen half done, and only where asked for or where nothing else
//! keeps what is there (other names, another owner, a device).

use std::io::{self, IoSlice, IoSliceMut};

use super::batch::read_all;
use super::handles::{Open, OpenFile};
use super::{LogLevel, Server, request_table};
use crate::batch::{
    PUT_COMPARED, PUT_OVER_LINKS, PUT_PERMISSIONS, PUT_PLACED, PutFailure, PutFile, PutStep,
};
use crate::fs::{FileSystem, status_of, text_of};
use crate::keep::{Xattrs, is_wanted};
use crate::{Attrs, OpenFlags, StatusCode, kept};

/// The end of the names under which files grow, and how much of the final name they keep.
const PART_SUFFIX: &[u8] = b".lhpart";
const LONGEST_PART: usize = 240;

/// What has been learnt on the way.
#[derive(Debug, Default)]
pub(super) struct Placing {
    /// Files cannot be without a name here.
    named: bool,
    /// The last file replaced another: so will the next, perhaps.
    replacing: bool,
}

/// A file, and what of it is to be kept besides.
struct Put<'a> {
    file: PutFile<'a>,
    xattrs: Xattrs,
}

type Failure = (PutStep, io::Error);

impl Server {
    pub(super) fn serve_put_files(&mut self, id: u32, flags: u32, count: u32, fields: &[u8]) {
        let mut known = PUT_PERMISSIONS | PUT_PLACED | PUT_COMPARED | PUT_OVER_LINKS;
        if self.permits_named("put-kept") {
            known |= kept::PUT_OWNER | kept::PUT_XATTRS | kept::PUT_ACLS;
        }
        if flags & !known != 0 {
            return self.reply_status(id, StatusCode::OP_UNSUPPORTED);
        }
        let kinds = kept::put_kinds(flags);
        let files = read_all(fields, count, |reader| {
            let file = PutFile::read(reader)?;
            let xattrs = if kinds == 0 { Xattrs::new() } else { kept::read(reader)? };
            Ok(Put { file, xattrs })
        });
        let only_kinds = |put: &Put<'_>| put.xattrs.iter().all(|(name, _)| is_wanted(name, kinds));
        let Some(files) = files.filter(|files| files.iter().all(only_kinds)) else {
            return self.reply_status(id, StatusCode::BAD_MESSAGE);
        };
        let may_place = ["posix-rename", "remove", "lstat"].iter().all(|name| self.permits_named(name));
        let flags = if may_place { flags } else { flags & !PUT_PLACED };
        let mut failures = Vec::new();
        let mut lacks = Vec::new();
        for (index, put) in (0..).zip(&files) {
            let failed = self.put_file(put, flags, &mut lacks).err();
            for (step, error) in lacks.drain(..).chain(failed) {
                let (code, text) = (status_of(&error), text_of(&error));
                self.log_line(LogLevel::Info, format_args!("sent status {text}"));
                failures.push(PutFailure { index, step, code, text });
            }
        }
        self.did_extra_work(files.len());
        self.reply().extended(id, |out| PutFailure::write_all(&failures, out));
    }

    pub(super) fn permits_named(&self, name: &str) -> bool {
        request_table().iter().any(|info| info.name == name && self.options.permits(info))
    }

    fn put_file(&mut self, put: &Put<'_>, flags: u32, lacks: &mut Vec<Failure>) -> Result<(), Failure> {
        // Bits that lend rights wait for the owner.
        let mask = if flags & kept::PUT_OWNER == 0 { 0o7777 } else { 0o777 };
        let permissions = put.file.attrs.permissions.map_or(0o666, |bits| bits & mask);
        self.log_open(put.file.path, OpenFlags::WRITE | OpenFlags::CREAT, permissions);
        self.room_to_open().map_err(|error| (PutStep::Open, error))?;
        if flags & PUT_PLACED != 0 {
            if let Some(done) = self.put_unnamed(put, flags, permissions, lacks) {
                return done;
            }
            lacks.clear();
            if let Some(done) = self.put_beside(put, flags, permissions, lacks) {
                return done;
            }
        }
        // What is compared has to be read, which a file that is there may not allow.
        let flags = flags & !PUT_COMPARED;
        let open = self.open_file(put.file.path, OpenFlags::WRITE | OpenFlags::CREAT, permissions);
        let mut open = open.map_err(|error| (PutStep::Open, error))?;
        let outcome = self.fill(&mut open, put, flags, None, lacks);
        self.log_close(Open::File(open), false);
        outcome
    }

    /// Without a name until it is complete. `None` where that is not the way.
    fn put_unnamed(
        &mut self,
        put: &Put<'_>,
        flags: u32,
        permissions: u32,
        lacks: &mut Vec<Failure>,
    ) -> Option<Result<(), Failure>> {
        if self.placing.named || self.placing.replacing {
            return None;
        }
        let (folder, _) = folder_and_name(put.file.path);
        let file = self.fs.open_unnamed(folder, permissions);
        if file.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Unsupported) {
            self.placing.named = true;
        }
        let mut open = self.account(file.ok()?, put.file.path);
        let outcome = self.fill(&mut open, put, flags | FRESH, None, lacks);
        if outcome.is_ok()
            && let Err(error) = self.fs.give_name(&*open.file, put.file.path)
        {
            match error.kind() {
                io::ErrorKind::AlreadyExists => self.placing.replacing = true,
                _ => self.placing.named = true,
            }
            // As if nothing had been.
            self.handles.take_back_number();
            return None;
        }
        self.log_close(Open::File(open), false);
        Some(outcome)
    }

    /// Under another name first. `None` where it has to be written in place.
    fn put_beside(
        &mut self,
        put: &Put<'_>,
        flags: u32,
        permissions: u32,
        lacks: &mut Vec<Failure>,
    ) -> Option<Result<(), Failure>> {
        let path = put.file.path;
        let (name, old) = self.place_for(path, flags)?;
        let mut open = self.open_part(&name, path, old, permissions)?;
        let old_mode = old.and_then(|old| old.permissions).map(|bits| bits & 0o7777);
        let mut outcome = self.fill(&mut open, put, flags | FRESH, old_mode, lacks);
        self.log_close(Open::File(open), false);
        if outcome.is_ok() {
            outcome = self.fs.rename(&name, path, true).map_err(|error| (PutStep::Write, error));
        }
        if outcome.is_err() {
            let _ = self.fs.remove_file(&name);
        }
        Some(outcome)
    }

    /// The name under which a file grows, and what it will replace; `None` where it has to be written in place.
    fn place_for(&mut self, path: &[u8], flags: u32) -> Option<(Vec<u8>, Option<Attrs>)> {
        let old = match self.fs.attrs(path, false) {
            Ok(attrs) if attrs.is_file() && attrs.inode.is_none_or(|inode| inode.links < 2) => Some(attrs),
            Ok(attrs) if attrs.is_symlink() && flags & PUT_OVER_LINKS != 0 => None,
            Err(error) if status_of(&error) == StatusCode::NO_SUCH_FILE => {
                self.placing.replacing = false;
                None
            }
            _ => return None,
        };
        let (folder, name) = folder_and_name(path);
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
        Some(self.account(file, path))
    }

    /// A new file; in logs and accounts it has its final name.
    fn account(&mut self, file: Box<dyn crate::fs::File>, path: &[u8]) -> OpenFile {
        let number = self.handles.number_file();
        self.log.file_opened(number);
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::EXCL;
        OpenFile::new(number, file, path, flags)
    }

    /// Data, owner, extended attributes, mode and times, in this order: each may take away what comes behind it.
    fn fill(
        &mut self,
        open: &mut OpenFile,
        put: &Put<'_>,
        flags: u32,
        old_mode: Option<u32>,
        lacks: &mut Vec<Failure>,
    ) -> Result<(), Failure> {
        let PutFile { path, attrs, data } = put.file;
        let written = write_whole(open, data, flags & FRESH != 0)
            .and_then(|()| if flags & PUT_COMPARED != 0 { compare(open, data) } else { Ok(()) });
        if let Err(error) = written {
            open.failed(status_of(&error));
            return Err((PutStep::Write, error));
        }
        let mut mask = 0o7777;
        if let Some(ids) = attrs.ids.filter(|_| flags & kept::PUT_OWNER != 0) {
            // Bits that lend rights only on a file that has kept its owner.
            if !self.give_owner(open, ids, lacks) {
                mask = 0o777;
            }
        }
        let kinds = kept::put_kinds(flags);
        if kinds != 0
            && let Err(error) = open.file.set_xattrs(kinds, &put.xattrs)
        {
            lacks.push((PutStep::Xattrs, error));
        }
        let wanted = attrs.permissions.filter(|_| flags & PUT_PERMISSIONS != 0).map(|bits| bits & mask);
        let permissions = wanted.or(old_mode);
        let Attrs { times, full_times, .. } = attrs;
        let attrs = Attrs { permissions, times, full_times, ..Attrs::NONE };
        if attrs == Attrs::NONE {
            return Ok(());
        }
        self.log_set(path, &attrs);
        open.file.set_attrs(&attrs).map_err(|error| (PutStep::Attributes, error))
    }

    /// Owner and group, or the group alone. True when the file belongs to whom it shall.
    fn give_owner(&mut self, open: &mut OpenFile, ids: (u32, u32), lacks: &mut Vec<Failure>) -> bool {
        let all = Attrs { ids: Some(ids), ..Attrs::NONE };
        self.log_set(&open.event.path, &all);
        let Err(error) = open.file.set_attrs(&all) else { return ids.0 != u32::MAX };
        lacks.push((PutStep::Owner, error));
        if ids.0 != u32::MAX && ids.1 != u32::MAX {
            let _ = open.file.set_attrs(&Attrs { ids: Some((u32::MAX, ids.1)), ..Attrs::NONE });
        }
        false
    }
}

/// Not of the protocol: the file is new.
const FRESH: u32 = 1 << 31;

/// Everything up to the last slash, and what is behind it.
fn folder_and_name(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
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

/// Writes `data` over what is there and cuts the file behind it, or behind what could be written; in a `fresh` one nothing is there.
fn write_whole(open: &mut OpenFile, data: &[u8], fresh: bool) -> io::Result<()> {
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
    if fresh {
        return outcome;
    }
    let attrs = open.file.attrs()?;
    if attrs.is_file() && attrs.size.is_some_and(|size| size > done as u64) {
        let cut = open.file.set_attrs(&Attrs { size: Some(done as u64), ..Attrs::NONE });
        return outcome.and(cut);
    }
    outcome
}
