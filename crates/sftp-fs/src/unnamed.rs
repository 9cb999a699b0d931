//! Files without a name until they are complete.
//!
//! Other programs never see an incomplete file, and no file is left when its writer is killed. In memory file
//! systems this costs a third less than a temporary name and a rename.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::fs::{self, AtFlags, CWD, OFlags};
#[cfg(target_os = "linux")]
use rustix::io::Errno;

/// Creates a file without a name in `directory`, for reading and writing. The umask applies, as for any new
/// file. Fails with [`io::ErrorKind::Unsupported`] if the file system does not support such files, otherwise
/// with the error of open(2).
#[cfg(target_os = "linux")]
pub(crate) fn open_unnamed(directory: &Path, permissions: u32) -> io::Result<OwnedFd> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let how = OFlags::RDWR | OFlags::TMPFILE | OFlags::NOCTTY | OFlags::CLOEXEC;
    match fs::open(directory, how, crate::file::mode(permissions)) {
        // Errors of kernels and file systems without O_TMPFILE.
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::ISDIR) => Err(io::ErrorKind::Unsupported.into()),
        done => Ok(done?),
    }
}

/// Gives a file of [`open_unnamed`] its name, in the same file system. Replaces nothing and follows no link.
/// Fails with [`io::ErrorKind::AlreadyExists`] if the name exists, otherwise with the error of linkat(2).
#[cfg(target_os = "linux")]
pub(crate) fn give_name(file: impl AsFd, path: &Path) -> io::Result<()> {
    let file = file.as_fd();
    match fs::linkat(file, c"", CWD, path, AtFlags::EMPTY_PATH) {
        // Before Linux 6.10 only the superuser may link a descriptor directly. Others use its path in /proc.
        Err(Errno::NOENT) => {
            let open = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
            Ok(fs::linkat(CWD, open, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
        }
        done => Ok(done?),
    }
}

/// Other systems do not support such files.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open_unnamed(_: &Path, _: u32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Other systems do not support such files.
#[cfg(not(target_os = "linux"))]
pub(crate) fn give_name(_: impl AsFd, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_gets_its_name_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let file = match open_unnamed(dir.path(), 0o640) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                return eprintln!("this file system has no files without a name");
            }
            file => file.unwrap(),
        };
        let mut file = std::fs::File::from(file);
        file.write_all(b"text").unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let (there, free) = (dir.path().join("there"), dir.path().join("free"));
        // A dangling link exists, too.
        std::os::unix::fs::symlink("nowhere", &there).unwrap();
        assert_eq!(give_name(&file, &there).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        give_name(&file, &free).unwrap();
        assert_eq!(std::fs::read(&free).unwrap(), b"text");
        assert_eq!(std::fs::metadata(&free).unwrap().permissions().mode() & 0o077 & !0o040, 0);
        assert_eq!(give_name(&file, &dir.path().join("none/x")).unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(file);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn unnamed_files_vanish_and_missing_directories_fail() {
        let dir = tempfile::tempdir().unwrap();
        drop(open_unnamed(dir.path(), 0o600));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let error = open_unnamed(&dir.path().join("none"), 0o600).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
