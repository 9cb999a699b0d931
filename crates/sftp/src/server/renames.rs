//! Renames, and requests that change the file that a name refers to. The server compares a renamed file with
//! the one that the client wrote.

use std::io;

use super::handles::OpenFile;
use super::state::Server;
use super::upload_check::is_part;
use super::written::{Written, is_same, unless_moved};

#[cfg(doc)]
use crate::fs::FileSystem;

impl Server {
    /// Renames as [`FileSystem::rename`] does. Fails if `old` before the rename, or `new` after it, refers to
    /// another file than the one that the client wrote at `old`.
    pub(super) fn rename_written(&mut self, old: &[u8], new: &[u8], replace: bool) -> io::Result<()> {
        let written = self.written_at(old);
        if let Some(written) = &written {
            written.expect_at(&mut *self.fs, old)?;
        }
        self.rename_checked(old, new, replace)?;
        // Its inode number is not reused before the end of the comparison.
        let _pinned = self.closed_parts.take(old);
        // Renaming a directory also changes the paths of the files in it.
        self.forget_written(old);
        self.forget_written(new);
        match written {
            Some(written) => unless_moved(written.expect_at(&mut *self.fs, new)),
            None => Ok(()),
        }
    }

    /// Returns the file that the client wrote under this name, if it is known.
    fn written_at(&mut self, path: &[u8]) -> Option<Written> {
        let is_part = is_part(path);
        let closed = self.closed_parts.get(path);
        let open = self.handles.written_at(path);
        // Of an open and a closed file with this name, take the one that was opened later.
        let is_later = |open: &&mut OpenFile| closed.is_none_or(|part| open.event.number > part.number);
        let (attrs, exists) = match open.filter(is_later) {
            Some(open) => (open.file.attrs().ok()?, true),
            None => closed.map(|part| (part.attrs, part.pin.is_some()))?,
        };
        // The client may have opened the file through a link that it now renames.
        let is_kept = attrs.is_file() || is_part && attrs.is_symlink();
        if !is_kept
            || !is_part
                && self.fs.attrs(path, false).is_ok_and(|named| named.is_symlink())
                && self.fs.attrs(path, true).is_ok_and(|named| is_same(&attrs, &named))
        {
            return None;
        }
        Some(Written { attrs, is_part, exists })
    }

    /// Remembers a symbolic link that the client has made under a part file's name, until it renames it.
    pub(super) fn note_symlink(&mut self, target: &[u8], link: &[u8]) {
        if !is_part(link) {
            return;
        }
        let attrs = self.fs.attrs(link, false);
        // Another user may have replaced the link already. Then its attributes are of no use.
        if let (Ok(attrs), true) = (attrs, self.fs.read_link(link).is_ok_and(|read| read == target)) {
            let number = self.handles.number_file();
            self.closed_parts.insert(link.to_vec(), number, attrs, &mut *self.fs);
        }
    }

    /// Remembers a hard link that the client has made under a part file's name, until it renames it.
    pub(super) fn note_hard_link(&mut self, old: &[u8], new: &[u8]) {
        if let (true, Ok(attrs)) = (is_part(new), self.fs.attrs(old, false)) {
            let number = self.handles.number_file();
            self.closed_parts.insert(new.to_vec(), number, attrs, &mut *self.fs);
        }
    }

    /// If a request that changes the file at `path` succeeded, forgets the written files under this name.
    pub(super) fn name_changed(&mut self, outcome: &io::Result<()>, path: &[u8]) {
        if outcome.is_ok() {
            self.forget_written(path);
        }
    }

    /// Forgets the written files at `path` and below: the client has changed what the name refers to.
    pub(super) fn forget_written(&mut self, path: &[u8]) {
        self.closed_parts.forget_names(path);
        self.handles.forget_names(path);
    }
}
