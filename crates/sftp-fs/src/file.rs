//! Open files and directories of the host.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{self, AtFlags, FlockOperation, Gid, Mode, RawMode, Stat, Timespec, Timestamps, Uid};
use rustix::io::{Errno, retry_on_intr};

use lh_sftp::extended_attrs::{FileTimes, Inode, Ranges, Xattrs};
use lh_sftp::fs::{DirEntry, Directory, File, copy_through_memory};
use lh_sftp::{Attrs, StatVfs};

use crate::extended_attrs::{data_ranges, set_xattrs_of_open, xattrs_of_open};
use crate::{open_file, parts};

pub(crate) struct LocalFile {
    fd: OwnedFd,
    /// The file's lock is released when this is dropped.
    locked: bool,
}

impl LocalFile {
    pub(crate) const fn new(fd: OwnedFd) -> Self {
        Self { fd, locked: false }
    }

    /// A file of [`crate::parts`], which is locked.
    pub(crate) const fn locked(fd: OwnedFd) -> Self {
        Self { fd, locked: true }
    }
}

impl Drop for LocalFile {
    /// A program that another thread is starting may still have a copy of the descriptor. Closing alone would
    /// then not release the lock.
    fn drop(&mut self) {
        if self.locked {
            let _ = fs::flock(&self.fd, FlockOperation::NonBlockingUnlock);
        }
    }
}

impl File for LocalFile {
    fn read_at(&mut self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(open_file::read_at(&self.fd, offset, buffers)?)
    }

    fn write_at(&mut self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(open_file::write_at(&self.fd, offset, buffers)?)
    }

    fn attrs(&mut self) -> io::Result<Attrs> {
        Ok(attrs_of(&fs::fstat(&self.fd)?))
    }

    fn set_attrs(&mut self, attrs: &Attrs) -> io::Result<()> {
        apply_to_fd(self.fd.as_fd(), attrs)
    }

    fn data_ranges(&mut self, offset: u64) -> io::Result<Ranges> {
        data_ranges(&self.fd, offset)
    }

    fn xattrs(&mut self, wanted: u32) -> io::Result<Xattrs> {
        xattrs_of_open(&self.fd, wanted)
    }

    fn set_xattrs(&mut self, wanted: u32, xattrs: &Xattrs) -> io::Result<()> {
        set_xattrs_of_open(&self.fd, wanted, xattrs)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::fsync(&self.fd))?)
    }

    fn statvfs(&mut self) -> io::Result<StatVfs> {
        Ok(statvfs_of(&fs::fstatvfs(&self.fd)?))
    }

    fn try_lock(&mut self) -> io::Result<bool> {
        match fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(false),
            done => Ok(done.map(|()| true)?),
        }
    }

    fn unlock(&mut self) {
        if self.locked {
            let _ = fs::flock(&self.fd, FlockOperation::NonBlockingUnlock);
        }
    }

    fn lock_again(&mut self) -> io::Result<()> {
        if self.locked { parts::lock_shared(&self.fd) } else { Ok(()) }
    }

    fn identity(&mut self) -> io::Result<(u64, u64)> {
        let stat = fs::fstat(&self.fd)?;
        Ok((stat.st_dev as _, stat.st_ino))
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn copy_to(&mut self, offset: u64, to: &mut dyn File, to_offset: u64, len: usize) -> io::Result<usize> {
        #[cfg(target_os = "linux")]
        if let Some(to_fd) = to.as_fd() {
            let (mut from_at, mut to_at) = (offset, to_offset);
            let copied = retry_on_intr(|| {
                fs::copy_file_range(&self.fd, Some(&mut from_at), to_fd, Some(&mut to_at), len)
            });
            match copied {
                // The kernel copies nothing from files whose size is reported as 0, such as those of /proc.
                Ok(0) => {}
                Ok(n) => return Ok(n),
                // The kernel or the file systems cannot do it, or the target is open for appending.
                Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::BADF) => {}
                Err(error) => return Err(error.into()),
            }
        }
        copy_through_memory(self, offset, to, to_offset, len)
    }
}

pub(crate) struct LocalDir {
    dir: fs::Dir,
}

impl LocalDir {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self { dir: fs::Dir::new(fd)? })
    }

    /// See [`Directory::next_wanted`].
    fn find(
        &mut self,
        wanted: &dyn Fn(&[u8]) -> bool,
        names: &mut usize,
    ) -> io::Result<Option<fs::DirEntry>> {
        while *names > 0 {
            let Some(entry) = self.dir.read() else { break };
            let entry = entry?;
            *names -= 1;
            if wanted(entry.file_name().to_bytes()) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

impl Directory for LocalDir {
    fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        let mut names = usize::MAX;
        self.next_wanted(&|_| true, &mut names)
    }

    fn next_wanted(
        &mut self,
        wanted: &dyn Fn(&[u8]) -> bool,
        names: &mut usize,
    ) -> io::Result<Option<DirEntry>> {
        while let Some(entry) = self.find(wanted, names)? {
            // Like sftp-server, leaves out an entry that was removed in the meantime or is not accessible.
            let Ok(stat) = fs::statat(self.dir.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            return Ok(Some(DirEntry {
                name: entry.file_name().to_bytes().to_vec(),
                attrs: attrs_of(&stat),
                links: links_of(&stat),
            }));
        }
        Ok(None)
    }

    fn next_name(
        &mut self,
        wanted: &dyn Fn(&[u8]) -> bool,
        names: &mut usize,
    ) -> io::Result<Option<Vec<u8>>> {
        Ok(self.find(wanted, names)?.map(|entry| entry.file_name().to_bytes().to_vec()))
    }

    fn attrs(&mut self) -> io::Result<Attrs> {
        Ok(attrs_of(&fs::fstat(self.dir.fd()?)?))
    }

    fn set_attrs(&mut self, attrs: &Attrs) -> io::Result<()> {
        apply_to_fd(self.dir.fd()?, attrs)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(fs::fsync(self.dir.fd()?)?)
    }

    fn statvfs(&mut self) -> io::Result<StatVfs> {
        Ok(statvfs_of(&fs::fstatvfs(self.dir.fd()?)?))
    }
}

/// Version 3 has 32 bits for a time: other times become the nearest one that fits.
fn seconds(time: i64) -> u32 {
    u32::try_from(time.max(0)).unwrap_or(u32::MAX)
}

#[allow(clippy::unnecessary_cast, reason = "other architectures count in 32 bits")]
const fn links_of(stat: &Stat) -> u64 {
    stat.st_nlink as u64
}

fn nanoseconds(time: impl TryInto<u32>) -> u32 {
    time.try_into().unwrap_or(0)
}

pub(crate) fn attrs_of(stat: &Stat) -> Attrs {
    Attrs {
        size: Some(u64::try_from(stat.st_size).unwrap_or(0)),
        ids: Some((stat.st_uid, stat.st_gid)),
        permissions: Some(stat.st_mode as _),
        times: Some((seconds(stat.st_atime), seconds(stat.st_mtime))),
        full_times: Some(FileTimes {
            access: (stat.st_atime, nanoseconds(stat.st_atime_nsec)),
            modification: (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
        }),
        inode: Some(Inode {
            device: stat.st_dev as _,
            number: stat.st_ino,
            links: u32::try_from(links_of(stat)).unwrap_or(u32::MAX),
        }),
        // In units of 512 bytes on every file system.
        storage: u64::try_from(stat.st_blocks).ok().map(|blocks| blocks.saturating_mul(512)),
    }
}

pub(crate) fn statvfs_of(stat: &fs::StatVfs) -> StatVfs {
    let mut flags = 0;
    if stat.f_flag.contains(fs::StatVfsMountFlags::RDONLY) {
        flags |= StatVfs::READ_ONLY;
    }
    if stat.f_flag.contains(fs::StatVfsMountFlags::NOSUID) {
        flags |= StatVfs::NO_SETUID;
    }
    StatVfs {
        block_size: stat.f_bsize,
        fragment_size: stat.f_frsize,
        blocks: stat.f_blocks,
        blocks_free: stat.f_bfree,
        blocks_available: stat.f_bavail,
        files: stat.f_files,
        files_free: stat.f_ffree,
        files_available: stat.f_favail,
        id: stat.f_fsid,
        flags,
        name_max: stat.f_namemax,
    }
}

/// Converts permissions to the kernel's type.
pub(crate) const fn mode(permissions: u32) -> Mode {
    Mode::from_bits_truncate((permissions & 0o7777) as RawMode)
}

/// Applies the attributes that are present, in OpenSSH's order. Continues after errors and returns the last
/// one.
pub(crate) fn apply(
    attrs: &Attrs,
    truncate: impl FnOnce(u64) -> Result<(), Errno>,
    chmod: impl FnOnce(Mode) -> Result<(), Errno>,
    utimes: impl FnOnce(&Timestamps) -> Result<(), Errno>,
    chown: impl FnOnce(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
) -> io::Result<()> {
    let mut outcome = Ok(());
    if let Some(size) = attrs.size {
        outcome = truncate(size);
    }
    if let Some(permissions) = attrs.permissions {
        outcome = chmod(mode(permissions)).and(outcome);
    }
    let whole = |(access, modification): (u32, u32)| FileTimes {
        access: (access.into(), 0),
        modification: (modification.into(), 0),
    };
    if let Some(times) = attrs.full_times.or(attrs.times.map(whole)) {
        let at = |(tv_sec, nanoseconds): (i64, u32)| Timespec { tv_sec, tv_nsec: nanoseconds.into() };
        let times = Timestamps { last_access: at(times.access), last_modification: at(times.modification) };
        outcome = utimes(&times).and(outcome);
    }
    if let Some((user, group)) = attrs.ids {
        // chown(2) takes -1 for "unchanged", and some clients rely on it.
        let user = (user != u32::MAX).then(|| Uid::from_raw(user));
        let group = (group != u32::MAX).then(|| Gid::from_raw(group));
        outcome = chown(user, group).and(outcome);
    }
    Ok(outcome?)
}

fn apply_to_fd(fd: BorrowedFd<'_>, attrs: &Attrs) -> io::Result<()> {
    apply(
        attrs,
        |size| fs::ftruncate(fd, size),
        |permissions| fs::fchmod(fd, permissions),
        |times| fs::futimens(fd, times),
        |user, group| fs::fchown(fd, user, group),
    )
}
