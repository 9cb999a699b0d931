//! The host's own files.
//!
//! Every call is one or two system calls with the rights of the process, without a cache and without
//! permission checks of its own. Relative paths are joined to a start directory, so several sessions in one
//! process do not share a working directory.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{self, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use lh_sftp::extended_attrs::Xattrs;
use lh_sftp::fs::{Directory, File, FileSystem};
use lh_sftp::whole::{Made, Whole};
use lh_sftp::{Attrs, OpenFlags, StatVfs};

use crate::extended_attrs::{set_xattrs, xattrs};
use crate::file::{self, LocalDir, LocalFile, mode};
use crate::same_file::renumbers_files_at;
use crate::unnamed::{give_name, open_unnamed};
use crate::{parts, real_path, whole};

/// A [`FileSystem`] over the host's files, with the rights of the process.
#[derive(Debug, Clone)]
pub struct LocalFs {
    start: PathBuf,
    umask: Option<Mode>,
    /// Limit of open files, read only once: each open needs it.
    max_open: OnceLock<u64>,
    threads: OnceLock<usize>,
}

impl LocalFs {
    /// Relative paths start at `start` (sftp-server's `-d`), which should be absolute. The process's own
    /// working directory is neither used nor changed.
    pub fn new(start: impl Into<PathBuf>) -> Self {
        Self { start: start.into(), umask: None, max_open: OnceLock::new(), threads: OnceLock::new() }
    }

    /// Creates files and directories under this umask (sftp-server's `-u`) instead of the process's. The
    /// umask belongs to the process and is changed during the call. Other threads of the process must not
    /// create files at that time.
    #[must_use]
    pub const fn with_umask(mut self, umask: u32) -> Self {
        self.umask = Some(mode(umask & 0o777));
        self
    }

    fn path<'p>(&self, path: &'p [u8]) -> Cow<'p, Path> {
        let path = Path::new(OsStr::from_bytes(path));
        // An empty path is invalid; joined to the start directory it would become that directory.
        if path.is_absolute() || path.as_os_str().is_empty() {
            Cow::Borrowed(path)
        } else {
            Cow::Owned(self.start.join(path))
        }
    }

    fn open_with(&self, path: &[u8], how: OFlags, permissions: Option<u32>) -> io::Result<Box<dyn File>> {
        let path = self.path(path);
        let permissions = mode(permissions.unwrap_or(0o666));
        // Without NONBLOCK, opening a FIFO would stop the whole session until another process opens its other
        // end.
        let how = how | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = self.under_umask(|| fs::open(&*path, how, permissions));
        Ok(Box::new(LocalFile::new(opened?)))
    }

    fn under_umask<T>(&self, make: impl FnOnce() -> T) -> T {
        match self.umask {
            None => make(),
            Some(umask) => {
                let before = rustix::process::umask(umask);
                let made = make();
                rustix::process::umask(before);
                made
            }
        }
    }
}

impl FileSystem for LocalFs {
    fn open(&mut self, path: &[u8], flags: OpenFlags, permissions: Option<u32>) -> io::Result<Box<dyn File>> {
        self.open_with(path, kernel_flags(flags), permissions)
    }

    fn open_unless_link(
        &mut self,
        path: &[u8],
        flags: OpenFlags,
        permissions: Option<u32>,
    ) -> io::Result<Box<dyn File>> {
        self.open_with(path, kernel_flags(flags) | OFlags::NOFOLLOW, permissions)
    }

    fn open_unnamed(&mut self, directory: &[u8], permissions: u32) -> io::Result<Box<dyn File>> {
        let directory = if directory.is_empty() { Cow::Borrowed(&*self.start) } else { self.path(directory) };
        let opened = self.under_umask(|| open_unnamed(&directory, permissions));
        Ok(Box::new(LocalFile::new(opened?)))
    }

    fn give_name(&mut self, file: &dyn File, path: &[u8]) -> io::Result<()> {
        match file.as_fd() {
            Some(file) => give_name(file, &self.path(path)),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn open_part(
        &mut self,
        path: &[u8],
        flags: OpenFlags,
        permissions: Option<u32>,
    ) -> io::Result<Box<dyn File>> {
        let path = self.path(path);
        let permissions = mode(permissions.unwrap_or(0o666));
        let opened = self.under_umask(|| parts::open(&path, flags, kernel_flags(flags), permissions));
        Ok(Box::new(LocalFile::locked(opened?)))
    }

    fn claim_part(&mut self, path: &[u8]) -> io::Result<Box<dyn File>> {
        Ok(Box::new(LocalFile::locked(parts::claim(&self.path(path))?)))
    }

    fn make_whole(&mut self, files: &[Whole<'_>]) -> Vec<Made> {
        // The umask belongs to the process: while it is changed, no other thread may create files.
        let most = if self.umask.is_some() { 1 } else { *self.threads.get_or_init(whole::most_threads) };
        whole::make_whole(self, most, files)
    }

    fn open_dir(&mut self, path: &[u8]) -> io::Result<Box<dyn Directory>> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = fs::open(&*self.path(path), how, Mode::empty())?;
        Ok(Box::new(LocalDir::new(opened)?))
    }

    fn attrs(&mut self, path: &[u8], follow: bool) -> io::Result<Attrs> {
        let path = self.path(path);
        let stat = if follow { fs::stat(&*path) } else { fs::lstat(&*path) }?;
        Ok(file::attrs_of(&stat))
    }

    fn set_attrs(&mut self, path: &[u8], attrs: &Attrs, follow: bool) -> io::Result<()> {
        let path = self.path(path);
        let at = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        file::apply(
            attrs,
            |size| {
                let how = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                fs::ftruncate(fs::open(&*path, how, Mode::empty())?, size)
            },
            |permissions| match follow {
                true => fs::chmod(&*path, permissions),
                false => chmod_no_follow(&path, permissions),
            },
            |times| fs::utimensat(CWD, &*path, times, at),
            |user, group| fs::chownat(CWD, &*path, user, group, at),
        )
    }

    fn remove_file(&mut self, path: &[u8]) -> io::Result<()> {
        Ok(fs::unlink(&*self.path(path))?)
    }

    fn make_dir(&mut self, path: &[u8], permissions: u32) -> io::Result<()> {
        let path = self.path(path);
        Ok(self.under_umask(|| fs::mkdir(&*path, mode(permissions)))?)
    }

    fn remove_dir(&mut self, path: &[u8]) -> io::Result<()> {
        Ok(fs::rmdir(&*self.path(path))?)
    }

    fn real_path(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        let path = real_path::resolve(&self.path(path))?;
        Ok(path.into_os_string().into_vec())
    }

    fn rename(&mut self, old: &[u8], new: &[u8], replace: bool) -> io::Result<()> {
        let (old, new) = (self.path(old), self.path(new));
        if replace {
            return Ok(fs::rename(&*old, &*new)?);
        }
        #[cfg(any(target_os = "linux", target_os = "macos"))]
        match fs::renameat_with(CWD, &*old, CWD, &*new, fs::RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            done => return Ok(done?),
        }
        // File systems such as NFS cannot rename without replacing in one step. A hard link cannot overwrite
        // either. If that is impossible too, the target is checked before the rename.
        if file::attrs_of(&fs::lstat(&*old)?).is_file() {
            match fs::linkat(CWD, &*old, CWD, &*new, AtFlags::empty()) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::XDEV | Errno::MLINK | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    return Ok(fs::unlink(&*old).inspect_err(|_| {
                        let _ = fs::unlink(&*new);
                    })?);
                }
            }
        }
        match fs::lstat(&*new) {
            Ok(_) => Err(Errno::EXIST.into()),
            Err(_) => Ok(fs::rename(&*old, &*new)?),
        }
    }

    fn read_link(&mut self, path: &[u8]) -> io::Result<Vec<u8>> {
        Ok(fs::readlink(&*self.path(path), Vec::new())?.into_bytes())
    }

    fn symlink(&mut self, target: &[u8], link: &[u8]) -> io::Result<()> {
        Ok(fs::symlink(OsStr::from_bytes(target), &*self.path(link))?)
    }

    fn hard_link(&mut self, old: &[u8], new: &[u8]) -> io::Result<()> {
        Ok(fs::linkat(CWD, &*self.path(old), CWD, &*self.path(new), AtFlags::empty())?)
    }

    fn statvfs(&mut self, path: &[u8]) -> io::Result<StatVfs> {
        Ok(file::statvfs_of(&fs::statvfs(&*self.path(path))?))
    }

    fn xattrs(&mut self, path: &[u8], wanted: u32) -> io::Result<Xattrs> {
        xattrs(&self.path(path), wanted)
    }

    fn set_xattrs(&mut self, path: &[u8], wanted: u32, xattrs: &Xattrs) -> io::Result<()> {
        set_xattrs(&self.path(path), wanted, xattrs)
    }

    fn renumbers_files(&mut self, path: &[u8], device: u64) -> bool {
        renumbers_files_at(&self.path(path), device)
    }

    #[cfg(target_os = "linux")]
    fn pin(&mut self, path: &[u8]) -> io::Result<(OwnedFd, Attrs)> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::open(&*self.path(path), flags, Mode::empty())?;
        let attrs = file::attrs_of(&fs::fstat(&file)?);
        Ok((file, attrs))
    }

    fn max_open(&self) -> u64 {
        *self.max_open.get_or_init(|| {
            // The 5 descriptors are stdin, stdout, stderr and those of the log, as in sftp-server.
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
            limit.unwrap_or(u64::from(u32::MAX)).saturating_sub(5)
        })
    }
}

/// Flags of open(2) for those of OPEN.
fn kernel_flags(flags: OpenFlags) -> OFlags {
    let mut how = match (flags.contains(OpenFlags::READ), flags.contains(OpenFlags::WRITE)) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (_, false) => OFlags::RDONLY,
    };
    for (flag, bit) in [
        (OpenFlags::APPEND, OFlags::APPEND),
        (OpenFlags::CREAT, OFlags::CREATE),
        (OpenFlags::TRUNC, OFlags::TRUNC),
        (OpenFlags::EXCL, OFlags::EXCL),
    ] {
        how.set(bit, flags.contains(flag));
    }
    how
}

/// fchmodat(2) with AT_SYMLINK_NOFOLLOW.
#[cfg(not(target_os = "linux"))]
fn chmod_no_follow(path: &Path, permissions: Mode) -> Result<(), Errno> {
    fs::chmodat(CWD, path, permissions, AtFlags::SYMLINK_NOFOLLOW)
}

/// fchmodat(2) with AT_SYMLINK_NOFOLLOW, which kernels before 6.6 lack.
#[cfg(target_os = "linux")]
fn chmod_no_follow(path: &Path, permissions: Mode) -> Result<(), Errno> {
    let opened = fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if file::attrs_of(&fs::fstat(&opened)?).is_symlink() {
        return Err(Errno::OPNOTSUPP);
    }
    use std::os::fd::AsRawFd;
    fs::chmod(format!("/proc/self/fd/{}", opened.as_raw_fd()), permissions)
}
