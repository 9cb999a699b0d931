//! Locking of part files while uploads are checked. A file with a writer is not checked, and a file that is
//! being checked gets no writer, in any session.
//!
//! Writers share a lock of the file (flock(2)), and a check holds it exclusively. Locks belong to open files,
//! so they also apply between sessions, and between handles of one process.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use lh_sftp::OpenFlags;
use rustix::fs::{self, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Flags for opening safely: a FIFO would block the session, a link would be followed, and a terminal would
/// become the controlling one.
const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a part file with the access mode `how`.
///
/// # Errors
/// The file is not a regular file, has another name, or is claimed ([`Errno::TXTBSY`]); the file system has
/// no locks; errors of open(2).
pub(crate) fn open(path: &Path, flags: OpenFlags, how: OFlags, permissions: Mode) -> io::Result<OwnedFd> {
    // Truncation must not destroy another file's content, so it waits until the file is identified.
    let file = fs::open(path, how.difference(OFlags::TRUNC) | SAFE, permissions)?;
    lock_shared(&file)?;
    expect_alone(&file, path)?;
    if flags.contains(OpenFlags::TRUNC) {
        fs::ftruncate(&file, 0)?;
    }
    Ok(file)
}

/// Claims a part file exclusively, for reading.
///
/// # Errors
/// Like [`open`]; also [`Errno::TXTBSY`] if the file is open.
pub(crate) fn claim(path: &Path) -> io::Result<OwnedFd> {
    let file = fs::open(path, OFlags::RDONLY | SAFE, Mode::empty())?;
    lock(&file, FlockOperation::NonBlockingLockExclusive)?;
    expect_alone(&file, path)?;
    Ok(file)
}

/// Locks a part file as its writer.
///
/// # Errors
/// [`Errno::TXTBSY`] if it is claimed; errors of flock(2).
pub(crate) fn lock_shared(file: &OwnedFd) -> io::Result<()> {
    lock(file, FlockOperation::NonBlockingLockShared)
}

fn lock(file: &OwnedFd, how: FlockOperation) -> io::Result<()> {
    match fs::flock(file, how) {
        Err(Errno::WOULDBLOCK) => Err(Errno::TXTBSY.into()),
        done => Ok(done?),
    }
}

/// Fails unless the locked file is a regular file, has this name, and has no other.
fn expect_alone(file: &OwnedFd, path: &Path) -> io::Result<()> {
    let (open, named) = (fs::fstat(file)?, fs::lstat(path)?);
    let same = (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino);
    if !same {
        return Err(Errno::TXTBSY.into());
    }
    if FileType::from_raw_mode(open.st_mode) != FileType::RegularFile || open.st_nlink != 1 {
        return Err(Errno::MLINK.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalFs;
    use lh_sftp::fs::FileSystem as _;
    use std::os::unix::fs::symlink;

    const BOTH: OpenFlags = OpenFlags(OpenFlags::READ.0 | OpenFlags::WRITE.0 | OpenFlags::CREAT.0);

    fn writer(path: &Path, flags: OpenFlags) -> Result<OwnedFd, Errno> {
        let how = OFlags::RDWR | OFlags::CREATE;
        open(path, flags, how, Mode::RUSR | Mode::WUSR).map_err(|error| Errno::from_io_error(&error).unwrap())
    }

    fn claimed(path: &Path) -> Result<OwnedFd, Errno> {
        claim(path).map_err(|error| Errno::from_io_error(&error).unwrap())
    }

    #[test]
    fn writers_and_claims_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".x.lhpart");
        let (first, second) = (writer(&path, BOTH).unwrap(), writer(&path, BOTH).unwrap());
        assert_eq!(claimed(&path).unwrap_err(), Errno::TXTBSY);
        drop(first);
        assert_eq!(claimed(&path).unwrap_err(), Errno::TXTBSY);
        drop(second);
        let claim = claimed(&path).unwrap();
        assert_eq!(writer(&path, BOTH).unwrap_err(), Errno::TXTBSY);
        assert_eq!(claimed(&path).unwrap_err(), Errno::TXTBSY);
        drop(claim);
        assert!(writer(&path, BOTH).is_ok());
    }

    #[test]
    fn a_writer_that_waits_keeps_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut host = LocalFs::new(dir.path());
        let mut file = host.open_part(b".x.lhpart", BOTH, None).unwrap();
        assert!(host.claim_part(b".x.lhpart").is_err());
        file.unlock();
        let claim = host.claim_part(b".x.lhpart").unwrap();
        let error = file.lock_again().unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::TXTBSY));
        drop(claim);
        file.lock_again().unwrap();
        assert!(host.claim_part(b".x.lhpart").is_err());
    }

    #[test]
    fn lock_ends_with_the_file_although_others_have_its_descriptor() {
        let dir = tempfile::tempdir().unwrap();
        let mut host = LocalFs::new(dir.path());
        let file = host.open_part(b".x.lhpart", BOTH, None).unwrap();
        // A forked process has this copy until it executes its program.
        let copy = file.as_fd().unwrap().try_clone_to_owned().unwrap();
        assert!(host.claim_part(b".x.lhpart").is_err());
        drop(file);
        assert!(host.claim_part(b".x.lhpart").is_ok());
        drop(copy);
    }

    /// Another session may rename the file between the call that opens it and the lock.
    #[test]
    fn file_renamed_before_the_lock_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let [part, published] = [".x.lhpart", "x"].map(|name| dir.path().join(name));
        std::fs::write(&part, "text").unwrap();
        let file = fs::open(&part, OFlags::RDWR, Mode::empty()).unwrap();
        expect_alone(&file, &part).unwrap();
        std::fs::rename(&part, &published).unwrap();
        assert!(expect_alone(&file, &part).is_err());
        std::fs::write(&part, "other").unwrap();
        let error = expect_alone(&file, &part).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::TXTBSY));
    }

    #[test]
    fn files_with_other_names_are_neither_cut_nor_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [published, linked, link] = ["x", ".x.lhpart", ".y.lhpart"].map(|name| dir.path().join(name));
        std::fs::write(&published, "text").unwrap();
        std::fs::hard_link(&published, &linked).unwrap();
        symlink("x", &link).unwrap();
        let cut = OpenFlags(BOTH.0 | OpenFlags::TRUNC.0);
        assert_eq!(writer(&linked, cut).unwrap_err(), Errno::MLINK);
        assert_eq!(claimed(&linked).unwrap_err(), Errno::MLINK);
        assert_eq!(writer(&link, cut).unwrap_err(), Errno::LOOP);
        assert_eq!(claimed(&link).unwrap_err(), Errno::LOOP);
        assert_eq!(std::fs::read(&published).unwrap(), b"text");
        std::fs::remove_file(&published).unwrap();
        drop(writer(&linked, cut).unwrap());
        assert_eq!(std::fs::read(&linked).unwrap(), b"");
    }

    #[test]
    fn directories_and_fifos_are_no_parts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".d.lhpart");
        std::fs::create_dir(&path).unwrap();
        assert_eq!(claimed(&path).unwrap_err(), Errno::MLINK);
        let fifo = dir.path().join(".f.lhpart");
        fs::mknodat(fs::CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(claimed(&fifo).unwrap_err(), Errno::MLINK);
        assert_eq!(writer(&fifo, BOTH).unwrap_err(), Errno::MLINK);
    }
}
