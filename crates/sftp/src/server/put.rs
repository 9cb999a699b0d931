//! `put-files@longhaul`: many whole small files in one message.
//!
//! A file is written in the first of three ways that is possible. The first needs a free name: the file has
//! no name until it is complete. The second is a temporary name in the same directory, and a rename. The
//! third is writing in place, where other programs can see the incomplete file. It is used on request, and
//! where a rename would change the existing file's kind, owner or hard links.

use std::io;

use lh_wire::LogLevel;

use super::batch::read_all;
use super::handles::OpenFile;
use super::log::FileEvent;
use super::paths::directory_and_name;
use super::state::Server;
use super::upload_check::outcome_of;
use super::uploads::Links;
use super::written::{is_same, rename_open};
use crate::batch::{PUT_COMPARED, PUT_OVER_LINKS, PUT_PERMISSIONS, PUT_PLACED, PutFailure, PutFile, PutStep};
use crate::extended_attrs::{Xattrs, is_wanted};
use crate::fill::fill;
use crate::fs::{File, FileSystem, PART_SUFFIX, status_of, text_of};
use crate::whole::{Filled, Made, Whole, kinds_of};
use crate::{Attrs, OpenFlags, StatusCode, batched_extended_attrs};

/// Flags that forbid to follow a link at the final name, also where the file has to be written in place.
const OVER_LINKS: u32 = PUT_PLACED | PUT_OVER_LINKS;

/// Number of temporary names tried for a file. This many sessions can write the same file at the same time.
const PART_NAMES: u64 = 16;
/// Largest part of the final name in a temporary name, in bytes.
const LONGEST_PART: usize = 234;

/// A file with its extended attributes.
struct Put<'a> {
    file: PutFile<'a>,
    xattrs: Xattrs,
}

impl Server {
    pub(super) fn serve_put_files(&mut self, id: u32, flags: u32, count: u32, fields: &[u8]) {
        let mut known = PUT_PERMISSIONS | PUT_PLACED | PUT_COMPARED | PUT_OVER_LINKS;
        if self.options.permits_named("put-kept") {
            known |= batched_extended_attrs::PUT_OWNER
                | batched_extended_attrs::PUT_XATTRS
                | batched_extended_attrs::PUT_ACLS;
        }
        if flags & !known != 0 {
            return self.reply_status(id, StatusCode::OP_UNSUPPORTED);
        }
        let kinds = batched_extended_attrs::put_kinds(flags);
        let files = read_all(fields, count, |reader| {
            let file = PutFile::read(reader)?;
            let xattrs = if kinds == 0 { Xattrs::new() } else { batched_extended_attrs::read(reader)? };
            Ok(Put { file, xattrs })
        });
        let only_kinds = |put: &Put<'_>| put.xattrs.iter().all(|(name, _)| is_wanted(name, kinds));
        let Some(files) = files.filter(|files| files.iter().all(only_kinds)) else {
            return self.reply_status(id, StatusCode::BAD_MESSAGE);
        };
        let may_place =
            ["posix-rename", "remove", "lstat"].iter().all(|name| self.options.permits_named(name));
        let links = if flags & OVER_LINKS == OVER_LINKS { Links::Replaced } else { Links::Followed };
        let flags = if may_place { flags } else { flags & !PUT_PLACED };
        let mut made = self.make_unnamed(&files, flags).into_iter();
        let mut failures = Vec::new();
        for (index, put) in (0..).zip(&files) {
            let Filled { not_kept, outcome, .. } = self.put_file(put, flags, links, made.next());
            if outcome.is_ok() {
                self.forget_written(put.file.path);
            }
            for (step, error) in not_kept.into_iter().chain(outcome.err()) {
                let (code, text) = (status_of(&error), text_of(&error));
                self.log.line(LogLevel::Info, format_args!("sent status {text}"));
                failures.push(PutFailure { index, step, code, text });
            }
        }
        self.pace.served_files(count);
        self.reply().extended(id, |out| PutFailure::write_all(&failures, out));
    }

    /// Makes all files without names, and names them when they are complete. Returns an empty list if this
    /// way is not possible or not wanted.
    fn make_unnamed(&mut self, files: &[Put<'_>], flags: u32) -> Vec<Made> {
        if flags & PUT_PLACED == 0
            || self.uploads.is_some()
            || self.placing.named
            || self.placing.replacing
            || self.room_to_open().is_err()
        {
            return Vec::new();
        }
        let wholes: Vec<_> = files.iter().map(|put| put.whole(flags, None)).collect();
        self.fs.make_whole(&wholes)
    }

    /// Writes a file, unless it was made. `links`: what to do with a link at its name where it has to be
    /// written in place.
    fn put_file(&mut self, put: &Put<'_>, flags: u32, links: Links, made: Option<Made>) -> Filled {
        let whole = put.whole(flags, None);
        self.log.open(whole.path, OpenFlags::WRITE | OpenFlags::CREAT, whole.made_with);
        match made {
            Some(Made::Filled(filled)) => {
                let number = self.handles.number_file();
                self.log.sink.file_opened(number);
                return self.filled(FileEvent::new(number, whole.path, OpenFlags::NEW_FILE), &whole, filled);
            }
            Some(Made::Exists) => self.placing.replacing = true,
            Some(Made::Unsupported) => self.placing.named = true,
            Some(Made::Refused) | None => {}
        }
        if let Err(error) = self.room_to_open() {
            return not_opened(error);
        }
        if self.uploads.is_some() {
            return self.put_checked(&whole, flags);
        }
        if flags & PUT_PLACED != 0
            && let Some(filled) = self.put_beside(put, flags)
        {
            return filled;
        }
        // Comparing reads the file, but its permissions may allow writing only.
        let whole = Whole { compared: false, ..whole };
        match self.open_file(whole.path, OpenFlags::WRITE | OpenFlags::CREAT, whole.made_with, links) {
            Ok(OpenFile { mut file, event, .. }) => {
                let filled = fill(&mut *file, &whole, false);
                self.filled(event, &whole, filled)
            }
            Err(error) => not_opened(error),
        }
    }

    /// Writes a file under a temporary name and renames it. Returns `None` if it has to be written in place.
    fn put_beside(&mut self, put: &Put<'_>, flags: u32) -> Option<Filled> {
        let path = put.file.path;
        let old = self.place_for(path, flags)?;
        let old_mode = old.and_then(|old| old.permissions).map(|bits| bits & 0o7777);
        let whole = put.whole(flags, old_mode);
        let permissions = part_permissions(whole.made_with, old_mode);
        let (name, attrs, OpenFile { mut file, event, .. }) = self.open_part(path, old, permissions)?;
        let filled = fill(&mut *file, &whole, true);
        let mut filled = self.filled(event, &whole, filled);
        if filled.outcome.is_ok() {
            let renamed = rename_open(&mut *self.fs, &mut *file, &attrs, &name, path);
            filled.outcome = renamed.map_err(|error| (PutStep::Write, error));
        }
        if filled.outcome.is_err() {
            let _ = self.fs.remove_file(&name);
        }
        // From here on another session may take the temporary name.
        drop(file);
        Some(filled)
    }

    /// Writes a file while uploads are checked. It stays hidden until it is accepted.
    fn put_checked(&mut self, whole: &Whole<'_>, flags: u32) -> Filled {
        let how = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::TRUNC;
        let links = if flags & PUT_OVER_LINKS == 0 { Links::Followed } else { Links::Replaced };
        let mut open = match self.open_file(whole.path, how, whole.made_with, links) {
            Ok(open) => open,
            Err(error) => return not_opened(error),
        };
        let mut filled = fill(&mut *open.file, whole, true);
        if let Err((PutStep::Write, error)) = &filled.outcome {
            open.failed(status_of(error));
        }
        let (mut event, outcome) = self.publish(open);
        if let Err(error) = outcome {
            event.outcome = outcome_of(&error);
            // A failed write of the data is the reason to report.
            if !matches!(filled.outcome, Err((PutStep::Write, _))) {
                filled.outcome = Err((PutStep::Write, error));
            }
        }
        self.filled(event, whole, filled)
    }

    /// Writes the log lines and the usage record of a finished file.
    fn filled(&mut self, mut event: FileEvent, whole: &Whole<'_>, filled: Filled) -> Filled {
        event.bytes_written = filled.written as u64;
        event.start = 0;
        match &filled.outcome {
            Err((PutStep::Write, error)) => event.outcome = outcome_of(error),
            _ if whole.attrs != Attrs::NONE || whole.ids.is_some() => {
                self.log.set(whole.path, &Attrs { ids: whole.ids, ..whole.attrs }, &mut *self.lookup);
            }
            _ => {}
        }
        self.log.file_close(&event, "close");
        filled
    }

    /// Returns the attributes of the file that this one replaces, if there is one. Returns `None` if the file
    /// has to be written in place.
    fn place_for(&mut self, path: &[u8], flags: u32) -> Option<Option<Attrs>> {
        match self.fs.attrs(path, false) {
            Ok(attrs) if attrs.is_file() && attrs.inode.is_none_or(|inode| inode.links < 2) => {
                Some(Some(attrs))
            }
            Ok(attrs) if attrs.is_symlink() && flags & PUT_OVER_LINKS != 0 => Some(None),
            Err(error) if status_of(&error) == StatusCode::NO_SUCH_FILE => {
                self.placing.replacing = false;
                Some(None)
            }
            _ => None,
        }
    }

    /// Opens a temporary file and gives it the owner of the file that it will replace. Returns its name and
    /// the attributes that it was made with, or `None` if that is impossible.
    fn open_part(
        &mut self,
        path: &[u8],
        old: Option<Attrs>,
        permissions: u32,
    ) -> Option<(Vec<u8>, Attrs, OpenFile)> {
        let mut own = |name: Vec<u8>| {
            own_part(&mut *self.fs, &name, permissions).map(|part| Some((name, part?))).transpose()
        };
        let (name, (mut file, attrs)) =
            (0..PART_NAMES).find_map(|number| own(part_name(path, number)))?.ok()?;
        if let Some(ids) = old.and_then(|old| old.ids)
            && attrs.ids != Some(ids)
            && file.set_attrs(&Attrs { ids: Some(ids), ..Attrs::NONE }).is_err()
        {
            let _ = self.fs.remove_file(&name);
            return None;
        }
        // Log lines and usage records show the final name.
        let number = self.handles.number_file();
        self.log.sink.file_opened(number);
        Some((name, attrs, OpenFile::new(number, file, path, OpenFlags::NEW_FILE)))
    }
}

/// Returns the permissions of a new temporary file. During the write, they allow no more users to read it
/// than those of the file that it will replace.
const fn part_permissions(made_with: u32, old_mode: Option<u32>) -> u32 {
    match old_mode {
        Some(old_mode) => made_with & old_mode,
        None => made_with,
    }
}

/// Makes a temporary file and locks it. Returns `None` if the name is in use.
/// An unlocked file with this name is removed: it was left by an interrupted session. A locked file is being
/// written by another session, and is kept: that session will rename it.
fn own_part(
    fs: &mut dyn FileSystem,
    name: &[u8],
    permissions: u32,
) -> io::Result<Option<(Box<dyn File>, Attrs)>> {
    let mut file = match fs.open(name, OpenFlags::NEW_FILE, Some(permissions)) {
        Ok(file) => file,
        // No file can be made in the directory.
        Err(error) if fs.attrs(name, false).is_err() => return Err(error),
        Err(_) if remove_left(fs, name) => match fs.open(name, OpenFlags::NEW_FILE, Some(permissions)) {
            Ok(file) => file,
            Err(_) => return Ok(None),
        },
        Err(_) => return Ok(None),
    };
    let locked = file.try_lock();
    let attrs = file.attrs()?;
    let ours = match locked {
        // Before the lock, another session may have removed the file as one left by an interrupted session.
        Ok(locked) => locked && is_named(fs, &attrs, name),
        // Without locks no session removes an existing temporary file.
        Err(_) => true,
    };
    Ok(ours.then_some((file, attrs)))
}

/// Removes a temporary file that no session is writing. Returns true if it was removed.
fn remove_left(fs: &mut dyn FileSystem, name: &[u8]) -> bool {
    let plain = |attrs: Attrs| attrs.is_file() && attrs.inode.is_some_and(|inode| inode.links < 2);
    if !fs.attrs(name, false).is_ok_and(plain) {
        return false;
    }
    let Ok(mut file) = fs.open(name, OpenFlags::READ, None) else { return false };
    let locked = file.try_lock().is_ok_and(|locked| locked);
    let ours = locked && file.attrs().is_ok_and(|attrs| is_named(fs, &attrs, name));
    ours && fs.remove_file(name).is_ok()
}

/// Returns true if `name` refers to the file with these attributes.
fn is_named(fs: &mut dyn FileSystem, attrs: &Attrs, name: &[u8]) -> bool {
    fs.attrs(name, false).is_ok_and(|named| is_same(attrs, &named))
}

/// Returns a temporary name beside `path`: `.NAME.lhpart` for 0, and `.NAME.NUMBER.lhpart` for other numbers.
/// Copies name their unfinished files like this, so programs that know these names know the temporary files
/// too.
fn part_name(path: &[u8], number: u64) -> Vec<u8> {
    let (directory, name) = directory_and_name(path);
    let name = name.get(..name.len().min(LONGEST_PART)).unwrap_or(name);
    let end = if number == 0 { PART_SUFFIX.to_owned() } else { format!(".{number:012x}{PART_SUFFIX}") };
    [directory, b".", name, end.as_bytes()].concat()
}

impl Put<'_> {
    /// Returns the file with the settings that `flags` ask for. If the request has no permissions for it, it
    /// gets `old_mode`, the permissions of the file that it replaces.
    fn whole(&self, flags: u32, old_mode: Option<u32>) -> Whole<'_> {
        let PutFile { path, attrs, data } = self.file;
        let ids = attrs.ids.filter(|_| flags & batched_extended_attrs::PUT_OWNER != 0);
        let wanted = attrs.permissions.map(|bits| bits & 0o7777).filter(|_| flags & PUT_PERMISSIONS != 0);
        let Attrs { times, full_times, .. } = attrs;
        // Set-user-ID and set-group-ID bits can be set only after the owner.
        let mask = if ids.is_none() { 0o7777 } else { 0o777 };
        Whole {
            path,
            data,
            made_with: attrs.permissions.map_or(0o666, |bits| bits & mask),
            compared: flags & PUT_COMPARED != 0,
            ids,
            xattrs: kinds_of(flags, &self.xattrs),
            attrs: Attrs { permissions: wanted.or(old_mode), times, full_times, ..Attrs::NONE },
        }
    }
}

const fn not_opened(error: io::Error) -> Filled {
    Filled { written: 0, not_kept: Vec::new(), outcome: Err((PutStep::Open, error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_as_private_as_what_it_replaces() {
        assert_eq!(part_permissions(0o644, None), 0o644);
        assert_eq!(part_permissions(0o644, Some(0o600)), 0o600);
        assert_eq!(part_permissions(0o600, Some(0o666)), 0o600);
    }

    #[test]
    fn part_name_stands_beside_the_file() {
        for path in [&b"d/x"[..], b"d/x/", b"d/x//"] {
            assert_eq!(part_name(path, 0), b"d/.x.lhpart", "{path:?}");
        }
        assert_eq!(part_name(b"x", 7), b".x.000000000007.lhpart");
        assert_eq!(part_name(b"/x/", 0), b"/.x.lhpart");
    }
}
