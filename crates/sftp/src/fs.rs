//! The interface of the server engine to a file system.
//!
//! The engine implements the protocol; the traits here give access to files. Errors are `std::io::Error`s:
//! [`status_of`] turns those with an errno into status codes, and the others by their kind. Paths are the
//! client's bytes, absolute or relative to the session's start directory.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::extended_attrs::{Ranges, Xattrs};
use crate::whole::{Made, Whole};
use crate::{Attrs, OpenFlags, StatVfs, StatusCode};

/// End of the names of unfinished files, which lie beside their targets (`.NAME.TAG.lhpart`). Client and
/// server use it.
pub const PART_SUFFIX: &str = ".lhpart";

/// A tree of files.
pub trait FileSystem: Send {
    /// Opens a file. `permissions` (bits below 0o10000) apply only if the file is made.
    fn open(&mut self, path: &[u8], flags: OpenFlags, permissions: Option<u32>) -> io::Result<Box<dyn File>>;
    /// Like [`FileSystem::open`], but fails if the name is a symbolic link. Where others can put a link there
    /// between two calls, both have to be one step.
    fn open_unless_link(
        &mut self,
        path: &[u8],
        flags: OpenFlags,
        permissions: Option<u32>,
    ) -> io::Result<Box<dyn File>> {
        match self.attrs(path, false) {
            Ok(attrs) if attrs.is_symlink() => Err(rustix::io::Errno::LOOP.into()),
            _ => self.open(path, flags, permissions),
        }
    }
    /// Makes a file without a name in `directory` (empty: the start directory), for reading and writing. It
    /// is invisible before [`FileSystem::give_name`]. If it is dropped before that, the file system deletes
    /// it.
    fn open_unnamed(&mut self, _directory: &[u8], _permissions: u32) -> io::Result<Box<dyn File>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Gives a file of [`FileSystem::open_unnamed`] its name. Fails if the name exists, even as a symlink.
    fn give_name(&mut self, _file: &dyn File, _path: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Opens a file with a hidden name, as [`FileSystem::open`] does. Accepts only a regular file that has no
    /// other name, and follows no link. The file system locks the file while it is open. Fails while another
    /// session has claimed the file ([`FileSystem::claim_part`]). Used while uploads are checked.
    fn open_part(
        &mut self,
        _path: &[u8],
        _flags: OpenFlags,
        _permissions: Option<u32>,
    ) -> io::Result<Box<dyn File>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Opens a file with a hidden name for reading. [`FileSystem::open_part`] of this file fails until the
    /// returned value is dropped. Fails if the file is open by `open_part`.
    fn claim_part(&mut self, _path: &[u8]) -> io::Result<Box<dyn File>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes whole files under names that do not exist yet, as [`crate::fill::make_all`] does. Returns one
    /// result for each. Two files may have the same name. If the earlier one would remain, the result reports
    /// neither as made.
    fn make_whole(&mut self, files: &[Whole<'_>]) -> Vec<Made>;
    /// Opens a directory for listing.
    fn open_dir(&mut self, path: &[u8]) -> io::Result<Box<dyn Directory>>;
    /// Returns the attributes of the file at `path`. Follows a final symlink if `follow`.
    fn attrs(&mut self, path: &[u8], follow: bool) -> io::Result<Attrs>;
    /// Sets the attributes that are present in `attrs`. Tries all of them, in the order size, permissions,
    /// times, ids, and returns the last error.
    fn set_attrs(&mut self, path: &[u8], attrs: &Attrs, follow: bool) -> io::Result<()>;
    /// unlink(2).
    fn remove_file(&mut self, path: &[u8]) -> io::Result<()>;
    /// mkdir(2).
    fn make_dir(&mut self, path: &[u8], permissions: u32) -> io::Result<()>;
    /// rmdir(2).
    fn remove_dir(&mut self, path: &[u8]) -> io::Result<()>;
    /// Returns the absolute path without symlinks, `.` and `..`. The last component need not exist.
    fn real_path(&mut self, path: &[u8]) -> io::Result<Vec<u8>>;
    /// Renames a file by rename(2) if `replace`. Otherwise fails if `new` exists.
    fn rename(&mut self, old: &[u8], new: &[u8], replace: bool) -> io::Result<()>;
    /// readlink(2).
    fn read_link(&mut self, path: &[u8]) -> io::Result<Vec<u8>>;
    /// symlink(2).
    fn symlink(&mut self, target: &[u8], link: &[u8]) -> io::Result<()>;
    /// link(2).
    fn hard_link(&mut self, old: &[u8], new: &[u8]) -> io::Result<()>;
    /// statvfs(2).
    fn statvfs(&mut self, path: &[u8]) -> io::Result<StatVfs>;
    /// Returns the extended attributes of the kinds `wanted` (bits of [`crate::extended_attrs`]). Follows a
    /// final symlink.
    fn xattrs(&mut self, _path: &[u8], _wanted: u32) -> io::Result<Xattrs> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Sets the extended attributes of the kinds `wanted` to exactly `xattrs`. Does not follow a final
    /// symlink.
    fn set_xattrs(&mut self, _path: &[u8], _wanted: u32, _xattrs: &Xattrs) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns true if the file at `path`, which must be on the device with this number, may get another
    /// inode number while it is in use, as on file systems in user space. Follows no final symlink.
    fn renumbers_files(&mut self, _path: &[u8], _device: u64) -> bool {
        false
    }
    /// Opens the file at `path` without access to its content, and returns its attributes. Follows no final
    /// symlink. While the descriptor is open, no other file gets the inode number of this one.
    fn pin(&mut self, _path: &[u8]) -> io::Result<(OwnedFd, Attrs)> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns the limit of open files and directories, or 0 if it is unknown.
    fn max_open(&self) -> u64 {
        0
    }
}

/// An open file.
pub trait File: Send {
    /// preadv(2): reads into `buffers` from `offset`; 0 at the end of the file. May return less than asked.
    fn read_at(&mut self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    /// pwritev(2): may write less than asked.
    fn write_at(&mut self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<usize>;
    /// fstat(2).
    fn attrs(&mut self) -> io::Result<Attrs>;
    /// Sets attributes as [`FileSystem::set_attrs`] does.
    fn set_attrs(&mut self, attrs: &Attrs) -> io::Result<()>;
    /// Returns the ranges that hold data, from `offset` on: [`crate::extended_attrs::MAX_RANGES`] at most.
    fn data_ranges(&mut self, _offset: u64) -> io::Result<Ranges> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns extended attributes as [`FileSystem::xattrs`] does.
    fn xattrs(&mut self, _wanted: u32) -> io::Result<Xattrs> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Sets extended attributes as [`FileSystem::set_xattrs`] does.
    fn set_xattrs(&mut self, _wanted: u32, _xattrs: &Xattrs) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// fsync(2).
    fn sync(&mut self) -> io::Result<()>;
    /// fstatvfs(2).
    fn statvfs(&mut self) -> io::Result<StatVfs>;
    /// Makes this handle the file's only writer by flock(2) until it is dropped. Returns false if another
    /// handle is. Fails if the file system has no locks.
    fn try_lock(&mut self) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Gives up the lock of a file that [`FileSystem::open_part`] has opened, while the session waits for its
    /// client: another session may continue the file.
    fn unlock(&mut self) {}
    /// Locks the file as before [`unlock`](Self::unlock). Fails if another session has claimed it
    /// ([`FileSystem::claim_part`]).
    fn lock_again(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Returns the identity of the file on this host: device and inode.
    fn identity(&mut self) -> io::Result<(u64, u64)>;
    /// Returns the descriptor, if there is one that the kernel can copy from and to.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Copies up to `len` bytes (not 0) from `offset` to `to_offset` of `to`. Returns 0 at the end of the
    /// file.
    fn copy_to(&mut self, offset: u64, to: &mut dyn File, to_offset: u64, len: usize) -> io::Result<usize>;
}

/// Does the work of [`File::copy_to`] by reading and writing: slower, but possible for every file.
pub fn copy_through_memory(
    from: &mut dyn File,
    offset: u64,
    to: &mut dyn File,
    to_offset: u64,
    len: usize,
) -> io::Result<usize> {
    let mut buffer = vec![0; len.min(256 * 1024)];
    let got = from.read_at(offset, &mut [IoSliceMut::new(&mut buffer)])?;
    let mut done = 0;
    while let Some(rest) = buffer.get(done..got).filter(|rest| !rest.is_empty()) {
        match to.write_at(to_offset.saturating_add(done as u64), &[IoSlice::new(rest)])? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => done += n,
        }
    }
    Ok(got)
}

/// An open directory.
pub trait Directory: Send {
    /// Returns the next entry, `.` and `..` included, or `None` after the last.
    fn next_entry(&mut self) -> io::Result<Option<DirEntry>>;
    /// Returns the next entry whose name `wanted` accepts. Reads up to `names` names and subtracts the number
    /// of names read. Returns `None` after the last entry, and when `names` is 0. Other entries need no
    /// stat(2).
    fn next_wanted(
        &mut self,
        wanted: &dyn Fn(&[u8]) -> bool,
        names: &mut usize,
    ) -> io::Result<Option<DirEntry>> {
        while *names > 0 {
            *names -= 1;
            match self.next_entry()? {
                Some(entry) if !wanted(&entry.name) => {}
                found => return Ok(found),
            }
        }
        Ok(None)
    }
    /// Like [`Directory::next_wanted`], but returns the name only: no entry needs a stat(2).
    fn next_name(
        &mut self,
        wanted: &dyn Fn(&[u8]) -> bool,
        names: &mut usize,
    ) -> io::Result<Option<Vec<u8>>> {
        Ok(self.next_wanted(wanted, names)?.map(|entry| entry.name))
    }
    /// fstat(2) of the directory itself.
    fn attrs(&mut self) -> io::Result<Attrs>;
    /// Sets attributes as [`FileSystem::set_attrs`] does.
    fn set_attrs(&mut self, attrs: &Attrs) -> io::Result<()>;
    /// fsync(2).
    fn sync(&mut self) -> io::Result<()>;
    /// fstatvfs(2).
    fn statvfs(&mut self) -> io::Result<StatVfs>;
}

/// One entry of a directory with its attributes (of a symlink itself, not of its target).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Name without a slash.
    pub name: Vec<u8>,
    /// Attributes as lstat(2) returns them.
    pub attrs: Attrs,
    /// Number of hard links.
    pub links: u64,
}

/// Returns the status code for an error, as OpenSSH chooses it.
pub fn status_of(error: &io::Error) -> StatusCode {
    use rustix::io::Errno;
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::BADF | Errno::LOOP) => StatusCode::NO_SUCH_FILE,
        Some(Errno::PERM | Errno::ACCESS | Errno::FAULT) => StatusCode::PERMISSION_DENIED,
        Some(Errno::NAMETOOLONG | Errno::INVAL) => StatusCode::BAD_MESSAGE,
        Some(Errno::NOSYS) => StatusCode::OP_UNSUPPORTED,
        Some(_) => StatusCode::FAILURE,
        None => match error.kind() {
            io::ErrorKind::NotFound => StatusCode::NO_SUCH_FILE,
            io::ErrorKind::PermissionDenied => StatusCode::PERMISSION_DENIED,
            io::ErrorKind::Unsupported => StatusCode::OP_UNSUPPORTED,
            io::ErrorKind::UnexpectedEof => StatusCode::EOF,
            _ => StatusCode::FAILURE,
        },
    }
}

/// Returns the text for an error: the draft's text for its status code if that is specific, otherwise the
/// system's.
pub fn text_of(error: &io::Error) -> String {
    if let Some(text) = crate::refusal::refusal_text(error) {
        return text;
    }
    match status_of(error) {
        code @ (StatusCode::NO_SUCH_FILE | StatusCode::PERMISSION_DENIED | StatusCode::EOF) => {
            code.text().to_owned()
        }
        _ => {
            let text = error.to_string();
            match text.find(" (os error ") {
                Some(end) => text.get(..end).unwrap_or_default().to_owned(),
                None => text,
            }
        }
    }
}
