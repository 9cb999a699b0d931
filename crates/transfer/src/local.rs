//! The local end: every operation is a system call or two, done at once.

mod contents;
mod facts;
mod part;

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use lh_sftp::extended_attrs::Xattrs;
use lh_sftp_fs::{data_ranges, set_xattrs, xattrs};

use crate::end::{Change, Done, Entry, Fault, Handle, Info, Kind, Op, Outcome, Times};
use crate::local_path::real_path;

pub(crate) use contents::{holds, lengthen, read_at, sum_written, write_all_at, write_sparse_at};
use facts::local;
pub(crate) use facts::{info, mode_of};
pub(crate) use part::{expect_named, expect_placed, keep_lock, place_open};

/// Entries of a directory that are read at a time: a directory of a million files must not be in memory at
/// once.
const ENTRIES_AT_A_TIME: usize = 512;

/// Number of descriptors that this process may have.
pub(crate) fn max_open() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// Carries out an operation.
pub(crate) fn perform(op: Op<'_>) -> Outcome {
    match op {
        Op::Stat(path) => Ok(Done::Info(info(&rustix::fs::stat(path)?))),
        Op::OpenRead(path) => {
            // O_NONBLOCK: a FIFO may have replaced the file since it was looked at, and its open would hang.
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let fd = rustix::fs::open(path, flags, Mode::empty())?;
            let info = info(&rustix::fs::fstat(&fd)?);
            Ok(Done::Opened(Handle::Local(Arc::new(fd)), Some(info)))
        }
        Op::OpenWrite { path, mode } => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOCTTY | OFlags::CLOEXEC;
            // Writable while it is being written, as scp has it.
            let fd = rustix::fs::open(path, flags, mode_of(mode & 0o777 | 0o200))?;
            let info = info(&rustix::fs::fstat(&fd)?);
            Ok(Done::Opened(Handle::Local(Arc::new(fd)), Some(info)))
        }
        Op::OpenContinued { path, mode } => {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = rustix::fs::open(path, flags, mode_of(mode & 0o777 | 0o200));
            let Ok(fd) = opened else { return perform(Op::OpenWrite { path, mode }) };
            let info = info(&rustix::fs::fstat(&fd)?);
            match info.kind {
                Kind::File => Ok(Done::Opened(Handle::Local(Arc::new(fd)), Some(info))),
                _ => perform(Op::OpenWrite { path, mode }),
            }
        }
        Op::RealPath(path) => {
            let name = real_path(path)?.into();
            Ok(Done::Listed(Some(vec![Entry { name, info: Info::UNKNOWN }])))
        }
        Op::Lstat(path) => Ok(Done::Info(info(&rustix::fs::lstat(path)?))),
        Op::Fstat(handle) => Ok(Done::Info(info(&rustix::fs::fstat(local(handle)?)?))),
        Op::OpenPart { path, mode, as_found } => part::open_part(path, mode, as_found),
        Op::Rename { old, new } => {
            rustix::fs::rename(old, new)?;
            Ok(Done::Ok)
        }
        Op::RenameNew { old, new } => {
            #[cfg(any(target_os = "linux", target_os = "macos"))]
            rustix::fs::renameat_with(CWD, old, CWD, new, rustix::fs::RenameFlags::NOREPLACE)?;
            // A second name does not replace either.
            #[cfg(not(any(target_os = "linux", target_os = "macos")))]
            rustix::fs::linkat(CWD, old, CWD, new, rustix::fs::AtFlags::empty())
                .and_then(|()| rustix::fs::unlink(old))?;
            Ok(Done::Ok)
        }
        Op::Remove(path) => {
            rustix::fs::unlink(path)?;
            Ok(Done::Ok)
        }
        Op::RemoveDir(path) => {
            rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR)?;
            Ok(Done::Ok)
        }
        Op::Digests { handle, offset, len } => contents::digests(handle, offset, len),
        Op::Peek { handle, offset, len } => contents::peek(handle, offset, len),
        Op::Mkdir { path, mode } => {
            rustix::fs::mkdir(path, mode_of(mode))?;
            Ok(Done::Ok)
        }
        Op::List { path, .. } => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = rustix::fs::Dir::new(rustix::fs::open(path, flags, Mode::empty())?)?;
            Ok(Done::Opened(Handle::LocalDir(Arc::new(Mutex::new(dir))), None))
        }
        Op::ListPlain(path) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let dir = rustix::fs::Dir::new(rustix::fs::open(path, flags, Mode::empty())?)?;
            Ok(Done::Opened(Handle::LocalDir(Arc::new(Mutex::new(dir))), None))
        }
        Op::ListMore(Handle::LocalDir(dir)) => {
            let mut dir = dir.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(Done::Listed(some_entries(&mut dir)?))
        }
        Op::SetPath { path, change } => {
            if let Some(times) = change.times {
                rustix::fs::utimensat(CWD, path, &timestamps(times), AtFlags::empty())?;
            }
            if let Some(ids) = change.ids {
                chown(path, ids)?;
            }
            if let Some(mode) = change.mode {
                rustix::fs::chmod(path, mode_of(mode))?;
            }
            Ok(Done::Ok)
        }
        Op::SetLink { path, change } => {
            if let Some(ids) = change.ids {
                chown(path, ids)?;
            }
            if let Some(times) = change.times {
                rustix::fs::utimensat(CWD, path, &timestamps(times), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Ok(Done::Ok)
        }
        Op::ReadLink(path) => {
            let name = rustix::fs::readlink(path, Vec::new())?.into_bytes().into();
            Ok(Done::Listed(Some(vec![Entry { name, info: Info::UNKNOWN }])))
        }
        Op::Symlink { to, link, .. } => {
            rustix::fs::symlink(to, link)?;
            Ok(Done::Ok)
        }
        Op::Link { old, new } => {
            rustix::fs::link(old, new)?;
            Ok(Done::Ok)
        }
        Op::Ranges { handle, offset } => {
            Ok(Done::Ranges(data_ranges(local(handle)?, offset).map_err(fault)?))
        }
        Op::Xattrs { path, wanted } => Ok(Done::Xattrs(xattrs(as_path(path), wanted).map_err(fault)?)),
        Op::SetXattrs { path, wanted, xattrs } => {
            set_xattrs(as_path(path), wanted, xattrs).map_err(fault)?;
            Ok(Done::Ok)
        }
        Op::SetHandle { handle, change } => {
            set_handle(local(handle)?, change)?;
            Ok(Done::Ok)
        }
        Op::Sync(handle) => {
            match rustix::fs::fsync(local(handle)?) {
                // Pipes and the like have no disk.
                Ok(()) | Err(Errno::INVAL | Errno::ROFS) => Ok(Done::Ok),
                Err(error) => Err(error.into()),
            }
        }
        Op::Close(Handle::Local(fd)) => {
            if let Ok(fd) = Arc::try_unwrap(fd) {
                lh_sys::fd::close(fd).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            }
            Ok(Done::Ok)
        }
        // The directory is closed with the last use of its handle.
        Op::Close(Handle::LocalDir(_)) => Ok(Done::Ok),
        Op::Close(Handle::Remote(..)) | Op::ListMore(_) => Err(Errno::BADF.into()),
        Op::OpenExisting(_)
        | Op::OpenWriteOnly { .. }
        | Op::OpenEmptied { .. }
        | Op::ExpandPath(_)
        | Op::PutFiles { .. }
        | Op::GetFiles { .. }
        | Op::BeginSum(..)
        | Op::FullAttrs { .. }
        | Op::EndSum(_) => Err(Errno::NOSYS.into()),
    }
}

fn as_path(path: &[u8]) -> &std::path::Path {
    use std::os::unix::ffi::OsStrExt as _;
    std::path::Path::new(std::ffi::OsStr::from_bytes(path))
}

/// `u32::MAX` leaves what there is.
fn ids_of((user, group): (u32, u32)) -> (Option<rustix::fs::Uid>, Option<rustix::fs::Gid>) {
    let user = (user != u32::MAX).then(|| rustix::fs::Uid::from_raw(user));
    (user, (group != u32::MAX).then(|| rustix::fs::Gid::from_raw(group)))
}

/// lchown(2).
fn chown(path: &[u8], ids: (u32, u32)) -> Result<(), Errno> {
    let (user, group) = ids_of(ids);
    rustix::fs::chownat(CWD, path, user, group, AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn fault(error: std::io::Error) -> Fault {
    Errno::from_io_error(&error).map_or_else(|| Fault::other(error.to_string()), Fault::from)
}

/// The extended attributes of an open file.
pub(crate) fn xattrs_of_open(handle: &Handle, wanted: u32) -> std::io::Result<Xattrs> {
    lh_sftp_fs::xattrs_of_open(local(handle)?, wanted)
}

/// Gives an open file these extended attributes and no others.
pub(crate) fn set_xattrs_of_open(handle: &Handle, wanted: u32, xattrs: &Xattrs) -> Result<(), Fault> {
    lh_sftp_fs::set_xattrs_of_open(local(handle)?, wanted, xattrs).map_err(fault)
}

fn set_handle(fd: BorrowedFd<'_>, change: Change) -> Result<(), Errno> {
    if let Some(size) = change.size {
        rustix::fs::ftruncate(fd, size)?;
    }
    if let Some(ids) = change.ids {
        let (user, group) = ids_of(ids);
        rustix::fs::fchown(fd, user, group)?;
    }
    if let Some(mode) = change.mode {
        rustix::fs::fchmod(fd, mode_of(mode))?;
    }
    if let Some(times) = change.times {
        rustix::fs::futimens(fd, &timestamps(times))?;
    }
    Ok(())
}

fn timestamps(times: Times) -> Timestamps {
    let spec = |(seconds, nanoseconds): (i64, u32)| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::from(nanoseconds) as _,
    };
    Timestamps { last_access: spec(times.access), last_modification: spec(times.modification) }
}

/// Removes the path if it is a symbolic link, so that a later write does not follow it. Errors are ignored.
pub(crate) fn remove_symlink(path: &[u8]) {
    if let Ok(Done::Info(found)) = perform(Op::Lstat(path))
        && found.kind == Kind::Symlink
    {
        let _ = perform(Op::Remove(path));
    }
}

/// Adds what lstat(2) says to entries of an open directory. One that is gone by now keeps what was known of
/// it.
pub(crate) fn look_at(directory: &Handle, entries: &mut [Entry]) {
    let Handle::LocalDir(dir) = directory else { return };
    let dir = dir.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(fd) = dir.fd() else { return };
    for entry in entries {
        if let Ok(stat) = rustix::fs::statat(fd, &*entry.name, AtFlags::SYMLINK_NOFOLLOW) {
            entry.info = info(&stat);
        }
    }
}

/// The next entries, without the dot ones and with their kind where the directory has it; `None` at the end.
fn some_entries(dir: &mut rustix::fs::Dir) -> Result<Option<Vec<Entry>>, Fault> {
    let mut entries = Vec::new();
    while entries.len() < ENTRIES_AT_A_TIME {
        let Some(entry) = dir.read() else { break };
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Dir,
            FileType::Symlink => Kind::Symlink,
            // Some file systems do not say.
            FileType::Unknown => rustix::fs::statat(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(Kind::Unknown, |stat| info(&stat).kind),
            _ => Kind::Special,
        };
        entries.push(Entry { name: name.into(), info: Info { kind, ..Info::UNKNOWN } });
    }
    Ok((!entries.is_empty()).then_some(entries))
}
