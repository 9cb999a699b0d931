//! Names of files that the client writes. A rename must move the file that the client wrote.
//!
//! If others may write to a directory, another user can replace a file between the client's last write and
//! its rename. The server knows a file by its open handle. It knows a part file also after its handle is
//! closed, since copies close it before they rename it. It forgets a name when the client itself gives it to
//! another file.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;

use super::handles::OpenFile;
use super::paths::is_at_or_below;
use super::upload_check::is_part;
use crate::fs::{File, FileSystem, status_of};
use crate::refusal::{REPLACED, refused};
use crate::{Attrs, StatusCode};

/// Largest number of closed part files that are remembered. Copies have fewer that wait for their final
/// names.
const MOST: usize = 1024;

/// Largest number of them that are pinned ([`FileSystem::pin`]): each takes a descriptor.
const MOST_PINNED: usize = 128;

/// A file that the client wrote, with its attributes when they were last read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) attrs: Attrs,
    /// The file has the name of a part file, which only the copy uses.
    pub(super) is_part: bool,
    /// The file exists as long as this is asked, so its inode number is no other file's.
    pub(super) exists: bool,
}

impl Written {
    /// Fails if `name` refers to a file that another user put there.
    pub(super) fn expect_at(&self, fs: &mut dyn FileSystem, name: &[u8]) -> io::Result<()> {
        let named = fs.attrs(name, false)?;
        let is_expected = is_same(&self.attrs, &named) && (self.exists || is_of_kind(&self.attrs, &named))
            || match self.is_part {
                true => is_renumbered(fs, &self.attrs, name, &named),
                // A program of the same user may have replaced the file, as editors do.
                false => self.attrs.ids == named.ids,
            };
        if is_expected { Ok(()) } else { Err(refused(REPLACED)) }
    }
}

/// Returns true if both are attributes of the same file.
pub(super) fn is_same(one: &Attrs, other: &Attrs) -> bool {
    let identity = |attrs: &Attrs| attrs.inode.map(|inode| (inode.device, inode.number));
    identity(one).is_some() && identity(one) == identity(other)
}

/// Returns true if both are of one type and owner. Another user can delete a closed file and make one that
/// gets its inode number.
fn is_of_kind(one: &Attrs, other: &Attrs) -> bool {
    const TYPE: u32 = 0o170_000;
    let kind = |attrs: &Attrs| (attrs.permissions.map(|mode| mode & TYPE), attrs.ids.map(|(uid, _)| uid));
    kind(one) == kind(other)
}

/// Returns true if the file with the attributes `known` may have the name `name` under another inode number:
/// its file system changes such numbers, and the other attributes are equal. Elsewhere equal attributes prove
/// nothing: another user may rename any file of the directory, also one of the client's of equal size.
fn is_renumbered(fs: &mut dyn FileSystem, known: &Attrs, name: &[u8], named: &Attrs) -> bool {
    let (Some(before), Some(now)) = (known.inode, named.inode) else { return false };
    before.device == now.device
        && (known.permissions, known.ids, known.size) == (named.permissions, named.ids, named.size)
        // A file without names has lost this one, unless its file system counts no links.
        && (before.links > 0 || now.links == 0)
        && fs.renumbers_files(name, before.device)
}

/// Renames the open file `file` from `old` to `new`. `attrs` are attributes that it had at an earlier time.
pub(super) fn rename_open(
    fs: &mut dyn FileSystem,
    file: &mut dyn File,
    attrs: &Attrs,
    old: &[u8],
    new: &[u8],
) -> io::Result<()> {
    let mut expect_at = |fs: &mut dyn FileSystem, name: &[u8]| {
        let named = fs.attrs(name, false)?;
        if is_same(attrs, &named) || is_renumbered(fs, &file.attrs()?, name, &named) {
            Ok(())
        } else {
            Err(refused(REPLACED))
        }
    };
    expect_at(fs, old)?;
    fs.rename(old, new, true)?;
    unless_moved(expect_at(fs, new))
}

/// Accepts that the file does not exist: a program that waits for files may have moved it already.
pub(super) fn unless_moved(found: io::Result<()>) -> io::Result<()> {
    match found {
        Err(error) if status_of(&error) == StatusCode::NO_SUCH_FILE => Ok(()),
        found => found,
    }
}

/// A file that the client has closed.
#[derive(Debug)]
pub(super) struct ClosedPart {
    /// Number of its handle.
    pub(super) number: u64,
    pub(super) attrs: Attrs,
    /// Keeps its inode number from being reused.
    pub(super) pin: Option<OwnedFd>,
}

/// Part files that the client has closed but not renamed yet, and links with the names of part files.
#[derive(Debug, Default)]
pub(super) struct ClosedParts {
    files: HashMap<Vec<u8>, ClosedPart>,
    /// The latest [`MOST`] names, in the order in which they were closed.
    order: VecDeque<Vec<u8>>,
}

impl ClosedParts {
    /// Remembers a part file when the client closes it, until the client renames it.
    pub(super) fn note_closed(&mut self, open: &mut OpenFile, fs: &mut dyn FileSystem) {
        if open.is_writer() && is_part(&open.event.path) {
            // Without known attributes, renames are not refused.
            if let Ok(attrs) = open.file.attrs() {
                self.insert(open.event.path.clone(), open.event.number, attrs, fs);
            }
        }
    }

    /// Returns what is known of this part file.
    pub(super) fn get(&self, path: &[u8]) -> Option<&ClosedPart> {
        self.files.get(path)
    }

    /// Forgets this part file, which is pinned until the result is dropped.
    pub(super) fn take(&mut self, path: &[u8]) -> Option<ClosedPart> {
        self.files.remove(path)
    }

    /// Forgets `path` and all paths below it: the client has changed what they refer to.
    pub(super) fn forget_names(&mut self, path: &[u8]) {
        self.files.retain(|name, _| !is_at_or_below(name, path));
    }

    /// Remembers a file or link that the client made under the name of a part file. It must exist until this
    /// returns.
    pub(super) fn insert(&mut self, path: Vec<u8>, number: u64, attrs: Attrs, fs: &mut dyn FileSystem) {
        let mut part = ClosedPart { number, attrs, pin: None };
        match fs.pin(&path) {
            Ok((pin, named)) if is_same(&attrs, &named) => part.pin = Some(pin),
            // Another file has the name, and could get the number too once this one is gone. So the number
            // counts no longer, unless the file system changes it.
            Ok((_, named)) if !is_renumbered(fs, &attrs, &path, &named) => part.attrs.inode = None,
            Ok(_) | Err(_) => {}
        }
        if self.order.len() == MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.files.remove(&oldest);
        }
        self.order.push_back(path.clone());
        self.files.insert(path, part);
        let unpinned = self.order.len().checked_sub(MOST_PINNED + 1).and_then(|at| self.order.get(at));
        if let Some(part) = unpinned.and_then(|name| self.files.get_mut(name)) {
            part.pin = None;
        }
    }
}
