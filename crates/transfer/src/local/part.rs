//! Part files: what a file's content is written to before it gets the file's name. Other users may reach the
//! directory.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use lh_sftp_fs::is_same_file;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::facts::{info, local, mode_of};
use crate::end::{AsFound, Done, Fault, Handle, Outcome};

/// Opens a part file and locks it. What is there already is used only where no other user can have made it or
/// can reach it: a plain file of this user with one name. Anything else is removed, and the file is made
/// anew. Fails with [`FaultKind::Busy`](crate::end::FaultKind::Busy) where another copy has it locked: that
/// one gives it its final name.
pub(super) fn open_part(path: &[u8], mode: u32, as_found: AsFound) -> Outcome {
    // O_NONBLOCK: opening a pipe would hang.
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

/// Locks a part file until it is closed, and with it its name: no other copy opens, removes or renames it. On
/// file systems without locks it returns the file as it is.
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

/// Fails unless `path` names the file that is open as `file`: in a directory that others may write to,
/// another user can put something else there while a file is copied.
pub(crate) fn expect_named(path: &[u8], file: &impl AsFd) -> Result<(), Fault> {
    expect_at(path, file, &rustix::fs::fstat(file)?)
}

/// Like [`expect_named`], for a file that has just got this name: a program that waits for files may have
/// taken it away.
pub(crate) fn expect_placed(path: &[u8], file: &impl AsFd) -> Result<(), Fault> {
    unless_moved(expect_at(path, file, &rustix::fs::fstat(file)?))
}

fn unless_moved(found: Result<(), Fault>) -> Result<(), Fault> {
    match found {
        Err(fault) if fault == Fault::from(Errno::NOENT) => Ok(()),
        found => found,
    }
}

fn expect_at(path: &[u8], file: impl AsFd, open: &Stat) -> Result<(), Fault> {
    let named = rustix::fs::lstat(path)?;
    if is_same_file(&named, file, open) { Ok(()) } else { Err(Fault::replaced()) }
}

/// Gives a part file that is open its final name.
pub(crate) fn place_open(handle: &Handle, part: &[u8], target: &[u8]) -> Result<(), Fault> {
    let file = local(handle)?;
    let open = rustix::fs::fstat(file)?;
    expect_at(part, file, &open)?;
    rustix::fs::rename(part, target)?;
    unless_moved(expect_at(target, file, &open))
}

/// Returns true for a plain file of this process's user with one name.
fn is_ours(stat: &rustix::fs::Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_nlink == 1
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::CWD;

    use super::super::{perform, write_all_at};
    use super::*;
    use crate::end::{Kind, Op};

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
        let replace: [&dyn Fn(); 4] = [
            &|| std::fs::rename(&theirs, &part).unwrap(),
            // Another file of ours, of the same size and mode.
            &|| {
                std::fs::write(&theirs, "others").unwrap();
                std::fs::set_permissions(&theirs, std::fs::metadata(&part).unwrap().permissions()).unwrap();
                std::fs::rename(&theirs, &part).unwrap();
            },
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
    fn a_placed_file_may_be_taken_away_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let [placed, taken] = ["placed", "taken"].map(|name| dir.path().join(name));
        let file = std::fs::File::create(&placed).unwrap();
        let name = placed.as_os_str().as_bytes();
        expect_placed(name, &file).unwrap();
        std::fs::rename(&placed, taken).unwrap();
        expect_placed(name, &file).unwrap();
        expect_named(name, &file).unwrap_err();
        std::fs::write(&placed, "of another user").unwrap();
        assert_eq!(expect_placed(name, &file), Err(Fault::replaced()));
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
