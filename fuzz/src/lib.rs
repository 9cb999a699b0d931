//! Parts that fuzz targets share: a fake file system, and connections with keys in use.

pub mod pair;

use std::io::{self, IoSlice, IoSliceMut};

use lh_sftp::fs::{DirEntry, Directory, File, FileSystem};
use lh_sftp::{Attrs, OpenFlags, StatVfs};

/// Every path is both a file of 1,000 bytes and a directory of three entries; changes succeed and are
/// forgotten.
pub struct NoFiles;

const SIZE: u64 = 1000;

fn attrs() -> Attrs {
    Attrs { size: Some(SIZE), permissions: Some(0o100_644), ..Attrs::default() }
}

impl FileSystem for NoFiles {
    fn open(&mut self, path: &[u8], _: OpenFlags, _: Option<u32>) -> io::Result<Box<dyn File>> {
        if path.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(Box::new(Open(0))) }
    }
    fn make_whole(&mut self, files: &[lh_sftp::whole::Whole<'_>]) -> Vec<lh_sftp::whole::Made> {
        lh_sftp::fill::make_all(self, files)
    }
    fn open_dir(&mut self, _: &[u8]) -> io::Result<Box<dyn Directory>> {
        Ok(Box::new(Open(0)))
    }
    fn attrs(&mut self, _: &[u8], _: bool) -> io::Result<Attrs> {
        Ok(attrs())
    }
    fn set_attrs(&mut self, _: &[u8], _: &Attrs, _: bool) -> io::Result<()> {
        Ok(())
    }
    fn remove_file(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn make_dir(&mut self, _: &[u8], _: u32) -> io::Result<()> {
        Ok(())
    }
    fn remove_dir(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn real_path(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        Ok(path.to_vec())
    }
    fn rename(&mut self, _: &[u8], _: &[u8], _: bool) -> io::Result<()> {
        Ok(())
    }
    fn read_link(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        Ok(path.to_vec())
    }
    fn symlink(&mut self, _: &[u8], _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn hard_link(&mut self, _: &[u8], _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn statvfs(&mut self, _: &[u8]) -> io::Result<StatVfs> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A file system that panics when a path outside one directory is used.
pub struct Guarded {
    /// The file system that serves the requests.
    pub files: NoFiles,
    /// The directory.
    pub below: &'static [u8],
}

impl Guarded {
    fn check(&self, path: &[u8]) {
        let inside =
            path.strip_prefix(self.below).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
        let goes_up = path.split(|&byte| byte == b'/').any(|part| part == b"..");
        assert!(inside && !goes_up, "{} is not below the target", path.escape_ascii());
    }
}

impl FileSystem for Guarded {
    fn open(&mut self, path: &[u8], flags: OpenFlags, mode: Option<u32>) -> io::Result<Box<dyn File>> {
        self.check(path);
        self.files.open(path, flags, mode)
    }
    fn make_whole(&mut self, files: &[lh_sftp::whole::Whole<'_>]) -> Vec<lh_sftp::whole::Made> {
        lh_sftp::fill::make_all(self, files)
    }
    fn open_dir(&mut self, path: &[u8]) -> io::Result<Box<dyn Directory>> {
        self.files.open_dir(path)
    }
    fn attrs(&mut self, path: &[u8], follow: bool) -> io::Result<Attrs> {
        self.files.attrs(path, follow)
    }
    fn set_attrs(&mut self, path: &[u8], attrs: &Attrs, follow: bool) -> io::Result<()> {
        self.check(path);
        self.files.set_attrs(path, attrs, follow)
    }
    fn remove_file(&mut self, path: &[u8]) -> io::Result<()> {
        self.check(path);
        self.files.remove_file(path)
    }
    fn make_dir(&mut self, path: &[u8], mode: u32) -> io::Result<()> {
        self.check(path);
        self.files.make_dir(path, mode)
    }
    fn remove_dir(&mut self, path: &[u8]) -> io::Result<()> {
        self.check(path);
        self.files.remove_dir(path)
    }
    fn real_path(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.files.real_path(path)
    }
    fn rename(&mut self, old: &[u8], new: &[u8], replace: bool) -> io::Result<()> {
        // The client's probe whether renames are permitted: neither name exists.
        if !old.starts_with(b".nothing.") {
            self.check(old);
            self.check(new);
        }
        self.files.rename(old, new, replace)
    }
    fn read_link(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.files.read_link(path)
    }
    fn symlink(&mut self, target: &[u8], link: &[u8]) -> io::Result<()> {
        self.check(link);
        self.files.symlink(target, link)
    }
    fn hard_link(&mut self, old: &[u8], new: &[u8]) -> io::Result<()> {
        self.check(old);
        self.check(new);
        self.files.hard_link(old, new)
    }
    fn statvfs(&mut self, path: &[u8]) -> io::Result<StatVfs> {
        self.files.statvfs(path)
    }
}

struct Open(u32);

impl File for Open {
    fn read_at(&mut self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let left = usize::try_from(SIZE.saturating_sub(offset)).unwrap_or(0);
        let mut done = 0;
        for buffer in buffers {
            let take = buffer.len().min(left - done);
            buffer[..take].fill(b'x');
            done += take;
        }
        Ok(done)
    }
    fn write_at(&mut self, _: u64, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(buffers.iter().map(|buffer| buffer.len()).sum())
    }
    fn attrs(&mut self) -> io::Result<Attrs> {
        Ok(attrs())
    }
    fn set_attrs(&mut self, _: &Attrs) -> io::Result<()> {
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn statvfs(&mut self) -> io::Result<StatVfs> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn identity(&mut self) -> io::Result<(u64, u64)> {
        Ok((1, 1))
    }
    fn copy_to(&mut self, offset: u64, to: &mut dyn File, to_offset: u64, len: usize) -> io::Result<usize> {
        lh_sftp::fs::copy_through_memory(self, offset, to, to_offset, len)
    }
}

impl Directory for Open {
    fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        self.0 += 1;
        let entry = DirEntry { name: format!("entry {}", self.0).into_bytes(), attrs: attrs(), links: 1 };
        Ok((self.0 <= 3).then_some(entry))
    }
    fn attrs(&mut self) -> io::Result<Attrs> {
        Ok(attrs())
    }
    fn set_attrs(&mut self, _: &Attrs) -> io::Result<()> {
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn statvfs(&mut self) -> io::Result<StatVfs> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
