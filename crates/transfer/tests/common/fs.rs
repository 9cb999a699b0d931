//! A file system that does what the host's does, until it is told to fail.

use std::io::{self, IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use lh_sftp::fs::{DirEntry, Directory, File, FileSystem};
use lh_sftp::{Attrs, OpenFlags, StatVfs};
use lh_sftp_fs::LocalFs;

/// What goes wrong, by operation.
type Hook = Arc<Mutex<dyn FnMut(&str, &[u8], u64) -> io::Result<()> + Send>>;

/// A number that the test and the file system share.
#[derive(Clone, Default)]
pub struct Count(Arc<AtomicU32>);

impl Count {
    pub fn of(value: u32) -> Self {
        Self(Arc::new(AtomicU32::new(value)))
    }

    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn set(&self, value: u32) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// See the module documentation.
#[derive(Clone, Default)]
pub struct Faults {
    /// READs return at most so many bytes.
    pub longest_read: Option<usize>,
    /// Asked before each operation: its name, the path, and for reads and writes the offset.
    pub hook: Option<Hook>,
    /// Names put into every listing.
    pub extra_entries: Vec<Vec<u8>>,
    /// So many WRITEs put a wrong byte on the disk, and say that all is well.
    pub wrong_writes: Count,
    /// Which of the bytes of such a WRITE, or its first where it has not as many.
    pub wrong_at: usize,
    /// MKDIR, and OPEN with EXCL, report the creation of what exists. A file that exists, and that OPEN has
    /// not emptied, takes no WRITE. `rclone serve sftp` without a cache does so.
    pub overwrites_nothing: bool,
}

impl Faults {
    pub fn hook(hook: impl FnMut(&str, &[u8], u64) -> io::Result<()> + Send + 'static) -> Self {
        Self { hook: Some(Arc::new(Mutex::new(hook))), ..Self::default() }
    }

    /// `operation` fails with `errno` on paths that end with `path`.
    pub fn fail(operation: &'static str, path: &'static str, errno: rustix::io::Errno) -> Self {
        Self::hook(move |what, on, _| {
            if what == operation && on.ends_with(path.as_bytes()) { Err(errno.into()) } else { Ok(()) }
        })
    }

    fn ask(&self, what: &str, path: &[u8], offset: u64) -> io::Result<()> {
        match &self.hook {
            Some(hook) => (hook.lock().unwrap())(what, path, offset),
            None => Ok(()),
        }
    }
}

pub struct FaultFs {
    inner: LocalFs,
    faults: Faults,
}

impl FaultFs {
    pub fn new(root: &Path, faults: Faults) -> Self {
        Self { inner: LocalFs::new(root), faults }
    }
}

impl FileSystem for FaultFs {
    fn open(&mut self, path: &[u8], flags: OpenFlags, permissions: Option<u32>) -> io::Result<Box<dyn File>> {
        let what = if flags.contains(OpenFlags::WRITE) { "open-write" } else { "open-read" };
        self.faults.ask(what, path, 0)?;
        let (mut flags, mut refuses) = (flags, false);
        if self.faults.overwrites_nothing && flags.contains(OpenFlags::WRITE) {
            refuses = !flags.contains(OpenFlags::TRUNC) && self.inner.attrs(path, true).is_ok();
            if refuses {
                flags = OpenFlags::READ | OpenFlags::WRITE;
            }
        }
        let inner = self.inner.open(path, flags, permissions)?;
        Ok(Box::new(FaultFile { inner, path: path.to_vec(), refuses, faults: self.faults.clone() }))
    }
    fn make_whole(&mut self, files: &[lh_sftp::whole::Whole<'_>]) -> Vec<lh_sftp::whole::Made> {
        lh_sftp::fill::make_all(self, files)
    }
    fn open_dir(&mut self, path: &[u8]) -> io::Result<Box<dyn Directory>> {
        self.faults.ask("open-dir", path, 0)?;
        let inner = self.inner.open_dir(path)?;
        let extra = self.faults.extra_entries.clone();
        Ok(Box::new(FaultDir { inner, path: path.to_vec(), faults: self.faults.clone(), extra }))
    }
    fn attrs(&mut self, path: &[u8], follow: bool) -> io::Result<Attrs> {
        self.faults.ask("stat", path, 0)?;
        self.inner.attrs(path, follow)
    }
    fn set_attrs(&mut self, path: &[u8], attrs: &Attrs, follow: bool) -> io::Result<()> {
        self.faults.ask("setstat", path, 0)?;
        self.inner.set_attrs(path, attrs, follow)
    }
    fn remove_file(&mut self, path: &[u8]) -> io::Result<()> {
        self.faults.ask("remove", path, 0)?;
        self.inner.remove_file(path)
    }
    fn make_dir(&mut self, path: &[u8], permissions: u32) -> io::Result<()> {
        self.faults.ask("mkdir", path, 0)?;
        if self.faults.overwrites_nothing && self.inner.attrs(path, true).is_ok() {
            return Ok(());
        }
        self.inner.make_dir(path, permissions)
    }
    fn remove_dir(&mut self, path: &[u8]) -> io::Result<()> {
        self.inner.remove_dir(path)
    }
    fn real_path(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.faults.ask("realpath", path, 0)?;
        self.inner.real_path(path)
    }
    fn rename(&mut self, old: &[u8], new: &[u8], replace: bool) -> io::Result<()> {
        self.faults.ask("rename", new, 0)?;
        self.inner.rename(old, new, replace)
    }
    fn read_link(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        self.inner.read_link(path)
    }
    fn symlink(&mut self, target: &[u8], link: &[u8]) -> io::Result<()> {
        self.faults.ask("symlink", link, 0)?;
        self.inner.symlink(target, link)
    }
    fn hard_link(&mut self, old: &[u8], new: &[u8]) -> io::Result<()> {
        self.inner.hard_link(old, new)
    }
    fn statvfs(&mut self, path: &[u8]) -> io::Result<StatVfs> {
        self.inner.statvfs(path)
    }
}

struct FaultFile {
    inner: Box<dyn File>,
    path: Vec<u8>,
    /// WRITEs are refused.
    refuses: bool,
    faults: Faults,
}

impl File for FaultFile {
    fn read_at(&mut self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.faults.ask("read", &self.path, offset)?;
        let Some(longest) = self.faults.longest_read else { return self.inner.read_at(offset, buffers) };
        let mut left = longest;
        let mut shorter: Vec<IoSliceMut<'_>> = Vec::new();
        for buffer in buffers {
            let take = buffer.len().min(left);
            left -= take;
            shorter.push(IoSliceMut::new(&mut buffer[..take]));
        }
        self.inner.read_at(offset, &mut shorter)
    }
    fn write_at(&mut self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.faults.ask("write", &self.path, offset)?;
        if self.refuses {
            return Err(rustix::io::Errno::ACCESS.into());
        }
        let written = self.inner.write_at(offset, buffers)?;
        let wrong = self.faults.wrong_writes.get();
        if wrong > 0 && written > 0 {
            self.faults.wrong_writes.set(wrong - 1);
            let data: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
            let at = if self.faults.wrong_at < written { self.faults.wrong_at } else { 0 };
            self.inner.write_at(offset + at as u64, &[IoSlice::new(&[data[at] ^ 1])])?;
        }
        Ok(written)
    }
    fn attrs(&mut self) -> io::Result<Attrs> {
        self.inner.attrs()
    }
    fn set_attrs(&mut self, attrs: &Attrs) -> io::Result<()> {
        self.faults.ask("fsetstat", &self.path, 0)?;
        self.inner.set_attrs(attrs)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }
    fn statvfs(&mut self) -> io::Result<StatVfs> {
        self.inner.statvfs()
    }
    fn identity(&mut self) -> io::Result<(u64, u64)> {
        self.inner.identity()
    }
    fn copy_to(&mut self, offset: u64, to: &mut dyn File, to_offset: u64, len: usize) -> io::Result<usize> {
        self.inner.copy_to(offset, to, to_offset, len)
    }
}

struct FaultDir {
    inner: Box<dyn Directory>,
    path: Vec<u8>,
    faults: Faults,
    extra: Vec<Vec<u8>>,
}

impl Directory for FaultDir {
    fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        self.faults.ask("readdir", &self.path, 0)?;
        if let Some(name) = self.extra.pop() {
            let attrs = Attrs { size: Some(4), ..Attrs::with_permissions(0o100_644) };
            return Ok(Some(DirEntry { name, attrs, links: 1 }));
        }
        self.inner.next_entry()
    }
    fn attrs(&mut self) -> io::Result<Attrs> {
        self.inner.attrs()
    }
    fn set_attrs(&mut self, attrs: &Attrs) -> io::Result<()> {
        self.inner.set_attrs(attrs)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }
    fn statvfs(&mut self) -> io::Result<StatVfs> {
        self.inner.statvfs()
    }
}
