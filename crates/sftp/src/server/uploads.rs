//! Opening, closing and renaming files while uploads are checked ([`super::upload_check`]).

use std::io;

use lh_wire::LogLevel;

use super::handles::{Held, OpenFile};
use super::log::Shown;
use super::state::Server;
use super::upload_check::{Upload, Verdict, held_name, in_capitals, is_held, is_part, outcome, uses_held};
use super::written::unless_moved;
use crate::fs::{File, FileSystem, status_of};
use crate::refusal::{is_rejection, refused};
use crate::{Attrs, OpenFlags, Request, StatusCode};

/// Handling of a symbolic link at the final name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// It is followed. While uploads are checked, it is refused where the file is written.
    Followed,
    /// It is never followed. While uploads are checked, it is replaced; otherwise opening fails.
    Replaced,
}

impl Server {
    /// Sets the check of uploads. Call this before the first input.
    pub fn set_upload_check(&mut self, check: Box<dyn super::UploadCheck>) {
        self.uploads = Some(check);
    }

    /// Returns true unless the request uses a hidden file of the engine. Such a request is refused.
    pub(super) fn leaves_held(&mut self, id: u32, request: &Request<'_>) -> bool {
        let leaves = self.uploads.is_none() || !uses_held(request);
        if !leaves {
            self.reply_text(id, StatusCode::PERMISSION_DENIED, WAITS);
        }
        leaves
    }

    /// Opens a file as [`FileSystem::open`] does. While uploads are checked, written data go to a hidden
    /// file.
    pub(super) fn open_checked(
        &mut self,
        path: &[u8],
        flags: OpenFlags,
        permissions: u32,
        links: Links,
    ) -> io::Result<(Box<dyn File>, Option<Held>)> {
        let Some(check) = &mut self.uploads else {
            let file = match links {
                Links::Followed => self.fs.open(path, flags, Some(permissions)),
                Links::Replaced => self
                    .fs
                    .open_unless_link(path, flags, Some(permissions))
                    .map_err(|error| if is_link(&error) { refused(LINK) } else { error }),
            };
            return Ok((file?, None));
        };
        if is_held(path) {
            return Err(refused(WAITS));
        }
        let writes = flags.modifies() || flags.contains(OpenFlags::APPEND);
        if !writes {
            return Ok((self.fs.open(path, flags, Some(permissions))?, None));
        }
        let fs = &mut *self.fs;
        if is_part(path) {
            let file = fs.open_part(path, flags, Some(permissions))?;
            return distinct(fs, path).map(|()| (file, None));
        }
        let old = existing(fs, path, links)?;
        match &old {
            Some(_) if flags.contains(OpenFlags::CREAT | OpenFlags::EXCL) => {
                return Err(rustix::io::Errno::EXIST.into());
            }
            Some(_) if !flags.contains(OpenFlags::TRUNC) => {
                return Err(refused("files are not changed in place while uploads are checked"));
            }
            // A user without permission to write to a file may not replace it either.
            Some(Some(_)) => drop(fs.open(path, OpenFlags::WRITE, None)?),
            None if !flags.contains(OpenFlags::CREAT) => return Err(rustix::io::Errno::NOENT.into()),
            Some(None) | None => {}
        }
        let name = held_name(path, check.random());
        let mut file = fs.open(&name, OpenFlags::NEW_FILE, Some(permissions))?;
        let ready = distinct(fs, &name).and_then(|()| match old.flatten() {
            Some(old) => take_over(&mut *file, &old),
            None => Ok(()),
        });
        if let Err(error) = ready {
            let _ = fs.remove_file(&name);
            return Err(error);
        }
        let replace = !flags.contains(OpenFlags::EXCL);
        Ok((file, Some(Held { name, replace })))
    }

    /// Checks a hidden file that the client has closed, and gives it its final name. Removes it if one of
    /// these fails. Does nothing for a file that is not hidden.
    pub(super) fn publish(&mut self, open: OpenFile) -> (super::FileEvent, io::Result<()>) {
        let OpenFile { mut file, event, held, .. } = open;
        let Some(held) = held else { return (event, Ok(())) };
        let outcome = match event.outcome {
            super::FileOutcome::Complete => file.identity(),
            _ => Err(refused("the upload is incomplete: a write has failed")),
        };
        let outcome = outcome.and_then(|identity| {
            // While this handle is open, no other file gets this inode number.
            let open = self.fs.open(&held.name, OpenFlags::READ, None)?;
            // From here on this session cannot change the file.
            drop(file);
            let upload = Upload { file: &held.name, path: &event.path };
            self.decide(&upload, identity)?;
            drop(open);
            self.fs.rename(&held.name, &event.path, held.replace)?;
            unless_moved(self.expect_alone(&event.path, identity))
        });
        if outcome.is_err() {
            let _ = self.fs.remove_file(&held.name);
        }
        (event, outcome)
    }

    /// Removes a hidden file whose session has ended.
    pub(super) fn discard(&mut self, open: &mut OpenFile) {
        if let Some(held) = open.held.take() {
            let _ = self.fs.remove_file(&held.name);
        }
    }

    /// Renames as [`FileSystem::rename`] does. While uploads are checked, a part file gets a final name only
    /// if it is accepted.
    pub(super) fn rename_checked(&mut self, old: &[u8], new: &[u8], replace: bool) -> io::Result<()> {
        let Some(check) = &mut self.uploads else { return self.fs.rename(old, new, replace) };
        if is_held(old) || is_held(new) {
            return Err(refused(WAITS));
        }
        match (is_part(old), is_part(new)) {
            (true, false) => {}
            // A program that has opened the file under its final name would see later writes to it.
            (false, true) => {
                return Err(refused("published files are not hidden again while uploads are checked"));
            }
            _ => return self.fs.rename(old, new, replace),
        }
        let name = held_name(old, check.random());
        // The file is locked and has no writer: no session can open it for writing.
        let mut claim = self.fs.claim_part(old)?;
        let identity = claim.identity()?;
        distinct(&mut *self.fs, old)?;
        if !replace && self.fs.attrs(new, false).is_ok() {
            return Err(rustix::io::Errno::EXIST.into());
        }
        self.fs.rename(old, &name, false)?;
        let upload = Upload { file: &name, path: new };
        let outcome = self.decide(&upload, identity).and_then(|()| self.fs.rename(&name, new, replace));
        match &outcome {
            Ok(()) => {}
            Err(error) if is_rejection(error) => {
                let _ = self.fs.remove_file(&name);
                self.log.sink.rejected(old, new);
            }
            // The client may try the rename again.
            Err(_) => drop(self.fs.rename(&name, old, false)),
        }
        drop(claim);
        outcome
    }

    /// Makes a hard link as [`FileSystem::hard_link`] does. While uploads are checked, hidden files get no
    /// hard links: a write to one name would change the file under the other.
    pub(super) fn hard_link_checked(&mut self, old: &[u8], new: &[u8]) -> io::Result<()> {
        if self.uploads.is_some() && [old, new].into_iter().any(|path| is_held(path) || is_part(path)) {
            return Err(refused("hidden files have no hard links while uploads are checked"));
        }
        self.fs.hard_link(old, new)
    }

    /// Makes a symbolic link as [`FileSystem::symlink`] does. While uploads are checked, it fails: a link
    /// with a final name could lead to a hidden file.
    pub(super) fn symlink_checked(&mut self, target: &[u8], link: &[u8]) -> io::Result<()> {
        if self.uploads.is_some() {
            return Err(refused("no symbolic links are made while uploads are checked"));
        }
        self.fs.symlink(target, link)
    }

    /// Sets attributes as [`FileSystem::set_attrs`] does. While uploads are checked, setting a size by path
    /// fails.
    pub(super) fn set_attrs_checked(&mut self, path: &[u8], attrs: &Attrs, follow: bool) -> io::Result<()> {
        if self.uploads.is_some() && attrs.size.is_some() {
            return Err(refused("files are not changed in place while uploads are checked"));
        }
        self.fs.set_attrs(path, attrs, follow)
    }

    /// Runs the check of the file with this identity. Fails unless the file is accepted and still has its
    /// hidden name.
    fn decide(&mut self, upload: &Upload<'_>, identity: (u64, u64)) -> io::Result<()> {
        self.expect_alone(upload.file, identity)?;
        let Some(check) = &mut self.uploads else { return Ok(()) };
        let verdict = check.check(upload);
        let word = match &verdict {
            Verdict::Accepted => "accepted",
            Verdict::Rejected(_) => "rejected",
            Verdict::Undecided(_) => "not checked",
        };
        self.log.line(LogLevel::Verbose, format_args!("upload \"{}\" {word}", Shown(upload.path)));
        outcome(verdict)?;
        self.expect_alone(upload.file, identity)
    }

    /// Fails unless this name leads to this regular file, and the file has no other name.
    fn expect_alone(&mut self, name: &[u8], identity: (u64, u64)) -> io::Result<()> {
        let attrs = self.fs.attrs(name, false)?;
        let same = attrs.inode.is_some_and(|inode| {
            (inode.device, inode.number) == identity && inode.links == 1 && attrs.is_file()
        });
        if same { Ok(()) } else { Err(refused("the file has changed while it was checked")) }
    }
}

/// Text of the refusal to write to a symbolic link that was to be replaced.
const LINK: &str = "cannot replace the symbolic link";

/// Returns true for the error of opening a symbolic link that may not be followed.
fn is_link(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP)
}

/// Text of the answer to requests for hidden files of the engine.
const WAITS: &str = "the file waits to be checked";

/// Returns the state of the final name: `None` if it is free, `Some(None)` for a link that will be replaced,
/// otherwise the attributes of a regular file. Fails for files of other types.
fn existing(fs: &mut dyn FileSystem, path: &[u8], links: Links) -> io::Result<Option<Option<Attrs>>> {
    match fs.attrs(path, false) {
        Ok(attrs) if attrs.is_file() => Ok(Some(Some(attrs))),
        Ok(attrs) if attrs.is_symlink() && links == Links::Replaced => Ok(Some(None)),
        Ok(_) => Err(refused("only regular files are written while uploads are checked")),
        Err(error) if status_of(&error) == StatusCode::NO_SUCH_FILE && !path.is_empty() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Gives a hidden file the permissions of the file that it will replace, and its owner if that is possible.
fn take_over(file: &mut dyn File, old: &Attrs) -> io::Result<()> {
    if let Some(ids) = old.ids
        && file.attrs().ok().and_then(|attrs| attrs.ids) != Some(ids)
    {
        let _ = file.set_attrs(&Attrs { ids: Some(ids), ..Attrs::NONE });
    }
    // A write by another user clears set-user-ID and set-group-ID bits as well.
    let permissions = old.permissions.map(|bits| bits & 0o777);
    file.set_attrs(&Attrs { permissions, ..Attrs::NONE })
}

/// Fails if the file system ignores the case of names. A client could then rename a hidden file by a name
/// that does not look hidden.
fn distinct(fs: &mut dyn FileSystem, hidden: &[u8]) -> io::Result<()> {
    match fs.attrs(&in_capitals(hidden), false) {
        Ok(_) => Err(refused("uploads cannot be checked where small and capital letters are the same")),
        Err(error) if status_of(&error) == StatusCode::NO_SUCH_FILE => Ok(()),
        Err(error) => Err(error),
    }
}
