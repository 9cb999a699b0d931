//! The local end: every operation is a system call or two, done at once.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RawMode, Timespec, Timestamps};
use rustix::io::Errno;

use lh_crypto::Hash;
use lh_sftp::extended_attrs::Xattrs;
use lh_sftp::{PieceSum, ReadBack};
use lh_sftp_fs::{data_ranges, open_file, set_xattrs, xattrs};

use crate::end::{AsFound, Change, DIGEST_BLOCK, Done, Entry, Fault, Handle, Info, Kind, Op, Outcome, Times};
use crate::local_path::real_path;

/// Entries of a directory that are read at a time: a directory of a million files must not be in memory at once.
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
            // Not to hang on a FIFO that took the file's place since it was looked at.
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
        Op::RealPath(path) => {
            let name = real_path(path)?.into();
            Ok(Done::Listed(Some(vec![Entry { name, info: Info::UNKNOWN }])))
        }
        Op::Lstat(path) => Ok(Done::Info(info(&rustix::fs::lstat(path)?))),
        Op::Fstat(handle) => Ok(Done::Info(info(&rustix::fs::fstat(local(handle)?)?))),
        Op::OpenPart { path, mode, as_found } => open_part(path, mode, as_found),
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
        Op::Digests { handle, offset, len } => digests(handle, offset, len),
        Op::Peek { handle, offset, len } => peek(handle, offset, len),
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
        Op::Close(Handle::Remote(_)) | Op::ListMore(_) => Err(Errno::BADF.into()),
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

/// Opens a part file and locks it. What is there already is used only where no other user can have made it or can reach
/// it: a plain file of this user with one name. Anything else is removed, and the file is made anew. Fails with
/// [`FaultKind::Busy`](crate::end::FaultKind::Busy) where another copy has it locked: that one gives it its final name.
fn open_part(path: &[u8], mode: u32, as_found: AsFound) -> Outcome {
    // Not to hang on a pipe.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let make = || {
        let mode = mode_of(mode & 0o777 | 0o200);
        rustix::fs::open(path, flags | OFlags::CREATE | OFlags::EXCL, mode)
    };
    let open = || rustix::fs::open(path, flags, Mode::empty());
    let fd = match as_found {
        AsFound::Fresh => locked(path, make()?)?,
        AsFound::Adopted => open()?,
        AsFound::Empty | AsFound::Kept => match open() {
            Ok(fd) if is_ours(&rustix::fs::fstat(&fd)?) => {
                let fd = locked(path, fd)?;
                if as_found == AsFound::Empty {
                    rustix::fs::ftruncate(&fd, 0)?;
                }
                fd
            }
            Err(Errno::NOENT) => locked(path, make()?)?,
            found => {
                // Another user's copy, which goes on.
                let _lock = found.ok().map(|fd| locked(path, fd)).transpose()?;
                rustix::fs::unlink(path)?;
                locked(path, make()?)?
            }
        },
    };
    let info = info(&rustix::fs::fstat(&fd)?);
    Ok(Done::Opened(Handle::Local(Arc::new(fd)), Some(info)))
}

/// Locks a part file until it is closed, and with it its name: no other copy opens, removes or renames it. On file
/// systems without locks it returns the file as it is.
fn locked(path: &[u8], fd: OwnedFd) -> Result<OwnedFd, Fault> {
    match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Err(Fault::busy()),
        Err(_) => return Ok(fd),
        Ok(()) => {}
    }
    // Before it was locked, the copy that had it may have given it its final name.
    let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let named = rustix::fs::lstat(path).map(identity);
    if named == Ok(identity(rustix::fs::fstat(&fd)?)) { Ok(fd) } else { Err(Fault::busy()) }
}

/// Keeps the lock of a part file beyond its closing: until the result is dropped.
pub(crate) fn keep_lock(handle: &Handle) -> Option<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(local(handle).ok()?, 0).ok()
}

/// Fails unless `path` names the file that is open as `file`: in a directory that others may write to, another user
/// can put something else there while a file is copied.
pub(crate) fn expect_named(path: &[u8], file: &impl AsFd) -> Result<(), Fault> {
    let (open, named) = (rustix::fs::fstat(file)?, rustix::fs::lstat(path)?);
    let same = (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino);
    // File systems in user space may change the number with the name.
    let kind = |stat: &rustix::fs::Stat| (stat.st_dev, stat.st_mode, stat.st_uid, stat.st_size);
    if same || kind(&open) == kind(&named) { Ok(()) } else { Err(Fault::replaced()) }
}

/// Gives a part file that is open its final name.
pub(crate) fn place_open(handle: &Handle, part: &[u8], target: &[u8]) -> Result<(), Fault> {
    let file = local(handle)?;
    expect_named(part, &file)?;
    rustix::fs::rename(part, target)?;
    expect_named(target, &file)
}

/// Returns true for a plain file of this process's user with one name.
fn is_ours(stat: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_nlink == 1
}

/// The extended attributes of an open file.
pub(crate) fn xattrs_of_open(handle: &Handle, wanted: u32) -> std::io::Result<Xattrs> {
    lh_sftp_fs::xattrs_of_open(local(handle)?, wanted)
}

/// Gives an open file these extended attributes and no others.
pub(crate) fn set_xattrs_of_open(handle: &Handle, wanted: u32, xattrs: &Xattrs) -> Result<(), Fault> {
    lh_sftp_fs::set_xattrs_of_open(local(handle)?, wanted, xattrs).map_err(fault)
}

/// Returns true where the file begins with `data`, as it is read back.
pub(crate) fn holds(handle: &Handle, data: &[u8]) -> Result<bool, Fault> {
    let mut back = vec![0; data.len()];
    Ok(read_full(handle, 0, &mut back)? == data.len() && back == data)
}

fn digests(handle: &Handle, offset: u64, len: u64) -> Outcome {
    let mut all = Vec::new();
    let mut block = vec![0; DIGEST_BLOCK as usize];
    let end = offset.saturating_add(len);
    let mut at = offset;
    while at < end {
        let want = (end - at).min(u64::from(DIGEST_BLOCK)) as usize;
        let got = read_full(handle, at, &mut block[..want])?;
        if got == 0 {
            break;
        }
        all.extend_from_slice(Hash::Sha256.digest(&[&block[..got]]).as_ref());
        at += got as u64;
        if got < want {
            break;
        }
    }
    Ok(Done::Digests(all))
}

fn peek(handle: &Handle, offset: u64, len: u32) -> Outcome {
    let mut buffer = vec![0; len as usize];
    let got = read_full(handle, offset, &mut buffer)?;
    buffer.truncate(got);
    Ok(Done::Data(buffer.into()))
}

/// Reads until `buffer` is full or the file ends.
fn read_full(handle: &Handle, offset: u64, buffer: &mut [u8]) -> Result<usize, Fault> {
    Ok(open_file::read_full(local(handle)?, offset, buffer)?)
}

/// The sum over `data`, which was just written at `offset`; `read_back` says how much of it is read back.
pub(crate) fn sum_written(
    handle: &Handle,
    offset: u64,
    data: &[bytes::Bytes],
    read_back: ReadBack,
) -> Result<PieceSum, Fault> {
    let read = |at: u64, buffer: &mut [u8]| read_full(handle, at, buffer);
    let len = data.iter().map(bytes::Bytes::len).sum();
    PieceSum::of_written(read_back, offset, data, len, read)
}

fn local(handle: &Handle) -> Result<BorrowedFd<'_>, Errno> {
    match handle {
        Handle::Local(fd) => Ok(fd.as_fd()),
        Handle::LocalDir(_) | Handle::Remote(_) => Err(Errno::BADF),
    }
}

/// preadv(2) at `offset`; 0 at the end of the file.
pub(crate) fn read_at(handle: &Handle, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Fault> {
    Ok(open_file::read_at(local(handle)?, offset, buffers)?)
}

/// Like [`open_file::write_sparse_at`].
pub(crate) fn write_sparse_at(
    handle: &Handle,
    offset: u64,
    pieces: &[bytes::Bytes],
) -> Result<Option<u64>, Fault> {
    Ok(open_file::write_sparse_at(local(handle)?, offset, pieces)?)
}

/// Makes a file `end` bytes long, if it is shorter.
pub(crate) fn lengthen(handle: &Handle, end: u64) -> Result<(), Fault> {
    Ok(open_file::lengthen(local(handle)?, end)?)
}

/// Writes all of `pieces` from `offset` on.
pub(crate) fn write_all_at(handle: &Handle, offset: u64, pieces: &[bytes::Bytes]) -> Result<(), Fault> {
    Ok(open_file::write_all_at(local(handle)?, offset, pieces)?)
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

#[expect(clippy::unnecessary_cast, reason = "the fields' types differ between platforms")]
pub(crate) fn info(stat: &rustix::fs::Stat) -> Info {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Dir,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    };
    Info {
        kind,
        mode: Some(stat.st_mode as u32 & 0o7777),
        size: Some(stat.st_size as u64),
        times: Some(Times {
            access: (stat.st_atime as i64, stat.st_atime_nsec as u32),
            modification: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
        }),
        ids: Some((stat.st_uid, stat.st_gid)),
        storage: Some((stat.st_blocks as u64).saturating_mul(512)),
        links: Some(stat.st_nlink as u64),
        identity: Some((stat.st_dev as u64, stat.st_ino as u64)),
        pipe_there: false,
    }
}

/// Adds what lstat(2) says to entries of an open directory. One that is gone by now keeps what was known of it.
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

/// Permissions as the kernel takes them.
pub(crate) const fn mode_of(bits: u32) -> Mode {
    Mode::from_raw_mode(bits as RawMode)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn parts_are_plain_files_with_one_name() {
        let dir = tempfile::tempdir().unwrap();
        let (part, victim) = (dir.path().join(".x.lhpart"), dir.path().join("victim"));
        let plant: [&dyn Fn(); 4] = [
            &|| std::fs::hard_link(&victim, &part).unwrap(),
            &|| std::os::unix::fs::symlink(&victim, &part).unwrap(),
            &|| {
                let mode = Mode::from_raw_mode(0o666);
                rustix::fs::mknodat(CWD, &part, FileType::Fifo, mode, 0).unwrap();
            },
            &|| drop(std::os::unix::net::UnixListener::bind(&part).unwrap()),
        ];
        for plant in plant {
            for as_found in [AsFound::Empty, AsFound::Kept] {
                std::fs::write(&victim, b"as it was").unwrap();
                let _ = std::fs::remove_file(&part);
                plant();
                let opened = open_part(part.as_os_str().as_bytes(), 0o600, as_found);
                let Ok(Done::Opened(handle, Some(info))) = opened else { panic!("{opened:?}") };
                write_all_at(&handle, 0, &[bytes::Bytes::from_static(b"new")]).unwrap();
                assert_eq!((info.kind, info.size, info.links), (Kind::File, Some(0), Some(1)));
                assert_eq!(std::fs::read(&victim).unwrap(), b"as it was");
                assert_eq!(std::fs::metadata(&victim).unwrap().nlink(), 1);
                assert_eq!(std::fs::read(&part).unwrap(), b"new");
            }
        }
    }

    /// What another user may do in a directory that others may write to.
    #[test]
    fn a_part_that_was_replaced_is_not_placed() {
        let dir = tempfile::tempdir().unwrap();
        let [part, target, theirs] = [".x.lhpart", "x", "theirs"].map(|name| dir.path().join(name));
        let name_of = |path: &std::path::Path| path.as_os_str().as_bytes().to_vec();
        let (part_name, target_name) = (name_of(&part), name_of(&target));
        let replace: [&dyn Fn(); 3] = [
            &|| std::fs::rename(&theirs, &part).unwrap(),
            &|| {
                std::fs::remove_file(&part).unwrap();
                std::os::unix::fs::symlink(&theirs, &part).unwrap();
            },
            &|| std::fs::remove_file(&part).unwrap(),
        ];
        for replace in replace {
            std::fs::write(&theirs, "longer than the other one").unwrap();
            std::fs::write(&target, "as it was").unwrap();
            let _ = std::fs::remove_file(&part);
            let opened = open_part(&part_name, 0o600, AsFound::Fresh);
            let Ok(Done::Opened(handle, _)) = opened else { panic!("{opened:?}") };
            write_all_at(&handle, 0, &[bytes::Bytes::from_static(b"copied")]).unwrap();
            replace();
            place_open(&handle, &part_name, &target_name).unwrap_err();
            assert_eq!(std::fs::read(&target).unwrap(), b"as it was");
        }
        let _ = std::fs::remove_file(&part);
        let Ok(Done::Opened(handle, _)) = open_part(&part_name, 0o600, AsFound::Fresh) else { panic!() };
        place_open(&handle, &part_name, &target_name).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"");
    }

    #[test]
    fn a_part_that_is_being_written_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let part = dir.path().join(".x.lhpart");
        let open = |as_found| open_part(part.as_os_str().as_bytes(), 0o600, as_found);
        for first in [AsFound::Fresh, AsFound::Empty, AsFound::Kept] {
            let Ok(Done::Opened(handle, _)) = open(first) else { panic!("opened") };
            write_all_at(&handle, 0, &[bytes::Bytes::from_static(b"begun")]).unwrap();
            let lock = keep_lock(&handle);
            for closed in [false, true] {
                for as_found in [AsFound::Empty, AsFound::Kept] {
                    let Err(fault) = open(as_found) else { panic!("opened twice") };
                    assert_eq!(fault.kind, crate::end::FaultKind::Busy);
                    assert_eq!(std::fs::read(&part).unwrap(), b"begun");
                }
                if !closed {
                    perform(Op::Close(handle.clone())).unwrap();
                }
            }
            drop((handle, lock));
            open(AsFound::Kept).unwrap();
            std::fs::remove_file(&part).unwrap();
        }
    }

    #[test]
    fn a_part_of_ours_is_kept_or_emptied_as_asked() {
        let dir = tempfile::tempdir().unwrap();
        let part = dir.path().join(".x.lhpart");
        for (as_found, left) in [(AsFound::Kept, 5), (AsFound::Empty, 0)] {
            std::fs::write(&part, b"begun").unwrap();
            let opened = open_part(part.as_os_str().as_bytes(), 0o600, as_found);
            let Ok(Done::Opened(_, Some(info))) = opened else { panic!("{opened:?}") };
            assert_eq!(info.size, Some(left));
        }
        assert!(open_part(part.as_os_str().as_bytes(), 0o600, AsFound::Fresh).is_err());
    }
}
