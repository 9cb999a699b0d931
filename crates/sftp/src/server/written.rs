//! Names of files that the client writes: what it renames has to be what it wrote.
//!
//! In a directory that others may write to, another user can put something else under a file's name between the
//! client's last write and its rename. A file is known by its open handle; a part file also after it was closed, since
//! copies close it before they rename it. A name is forgotten when the client itself gives it to something else.

use std::collections::{HashMap, VecDeque};
use std::io;

use super::handles::OpenFile;
use super::paths::is_at_or_below;
use super::upload_check::is_part;
use crate::fs::{File, FileSystem, status_of};
use crate::refusal::{REPLACED, refused};
use crate::{Attrs, StatusCode};

/// Part files that are known after they were closed. Copies have fewer that wait for their final names.
const MOST: usize = 1024;

/// A file that the client wrote, as it was when it was last looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) attrs: Attrs,
    /// It has a part file's name, which nothing but the copy uses.
    pub(super) is_part: bool,
}

impl Written {
    /// Fails where `name` refers to something that another user has put there.
    pub(super) fn expect_at(&self, fs: &mut dyn FileSystem, name: &[u8]) -> io::Result<()> {
        let named = fs.attrs(name, false)?;
        // Under any other name a program of the same user may have replaced the file, as editors do.
        let same = is_same(&self.attrs, &named)
            || if self.is_part { is_alike(&self.attrs, &named) } else { self.attrs.ids == named.ids };
        if same { Ok(()) } else { Err(refused(REPLACED)) }
    }
}

/// Returns true where both are attributes of one file.
pub(super) fn is_same(one: &Attrs, other: &Attrs) -> bool {
    let identity = |attrs: &Attrs| attrs.inode.map(|inode| (inode.device, inode.number));
    identity(one).is_some() && identity(one) == identity(other)
}

/// Returns true where nothing but the number differs: file systems in user space may change it with the name.
fn is_alike(one: &Attrs, other: &Attrs) -> bool {
    let device = |attrs: &Attrs| attrs.inode.map(|inode| inode.device);
    device(one) == device(other)
        && (one.permissions, one.ids, one.size) == (other.permissions, other.ids, other.size)
}

/// Renames the open file `file`, which has the name `old`. `attrs` are those it had at any time before.
pub(super) fn rename_open(
    fs: &mut dyn FileSystem,
    file: &mut dyn File,
    attrs: &Attrs,
    old: &[u8],
    new: &[u8],
) -> io::Result<()> {
    let mut expect_at = |fs: &mut dyn FileSystem, name| {
        let named = fs.attrs(name, false)?;
        if is_same(attrs, &named) || is_alike(&file.attrs()?, &named) {
            Ok(())
        } else {
            Err(refused(REPLACED))
        }
    };
    expect_at(fs, old)?;
    fs.rename(old, new, true)?;
    unless_moved(expect_at(fs, new))
}

/// A program that waits for files may have taken this one away already.
pub(super) fn unless_moved(found: io::Result<()>) -> io::Result<()> {
    match found {
        Err(error) if status_of(&error) == StatusCode::NO_SUCH_FILE => Ok(()),
        found => found,
    }
}

/// Part files that the client has closed, and links that it has made under such names, and not renamed yet.
#[derive(Debug, Default)]
pub(super) struct ClosedParts {
    /// With the number of the handle.
    files: HashMap<Vec<u8>, (u64, Attrs)>,
    /// Names in the order in which they were closed, the latest [`MOST`].
    order: VecDeque<Vec<u8>>,
}

impl ClosedParts {
    /// Remembers a part file that the client closes, until it renames it.
    pub(super) fn note_closed(&mut self, open: &mut OpenFile) {
        if open.is_writer() && is_part(&open.event.path) {
            // Without its attributes no rename is refused.
            if let Ok(attrs) = open.file.attrs() {
                self.insert(open.event.path.clone(), open.event.number, attrs);
            }
        }
    }

    /// Returns the number of the handle with which this part was written, and its attributes.
    pub(super) fn get(&self, path: &[u8]) -> Option<(u64, Attrs)> {
        self.files.get(path).copied()
    }

    /// The client has changed what `path` refers to, and all paths below it.
    pub(super) fn forget_names(&mut self, path: &[u8]) {
        self.files.retain(|name, _| !is_at_or_below(name, path));
    }

    /// Remembers what the client has made under the name of a part file.
    pub(super) fn insert(&mut self, path: Vec<u8>, number: u64, attrs: Attrs) {
        if self.order.len() == MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.files.remove(&oldest);
        }
        self.order.push_back(path.clone());
        self.files.insert(path, (number, attrs));
    }
}
