//! `StrictModes`: files that decide about logins must not be writable by others than their owner.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files larger than this are refused: no administrator writes one, and a session must not be made to read it.
const LARGEST_FILE: u64 = 64 << 20;

/// Why a file is not read. `Display` is OpenSSH's text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StrictError {
    /// It is not there; no cause for a log line.
    #[error("{0}")]
    Missing(io::Error),
    /// It cannot be opened or read.
    #[error("Could not open user authorized keys '{path}': {error}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is a directory, a device or a pipe.
    #[error("authorized keys '{0}' is not a regular file")]
    NotRegular(PathBuf),
    /// The file or a directory above it belongs to somebody else, or others may write it.
    #[error("Authentication refused: bad ownership or modes for {what} {path}")]
    Modes {
        /// `file` or `directory`.
        what: &'static str,
        /// Which.
        path: PathBuf,
    },
    /// Larger than any sensible file.
    #[error("authorized keys '{0}' is too large")]
    TooLarge(PathBuf),
}

/// Reads a file that the user `uid` with this home directory controls.
///
/// With `strict`, the file itself and every directory from it up to the home directory (or to `/`, where the file
/// is not below the home directory) must belong to the user or to root, and nobody else may write them.
/// The owner's rights are those of the calling process, which therefore runs with the user's ids.
pub(crate) fn read(path: &Path, home: &Path, uid: u32, strict: bool) -> Result<Vec<u8>, StrictError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StrictError::Missing(error),
        _ => StrictError::Open { path: path.to_owned(), error },
    };
    // Not blocking on a FIFO somebody put there.
    let file: File = rustix::fs::open(
        path,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .map_err(|errno| failed(errno.into()))?
    .into();
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(StrictError::NotRegular(path.to_owned()));
    }
    if metadata.len() > LARGEST_FILE {
        return Err(StrictError::TooLarge(path.to_owned()));
    }
    if strict {
        let real = path.canonicalize().map_err(failed)?;
        let trusted = |metadata: &std::fs::Metadata| {
            (metadata.uid() == 0 || metadata.uid() == uid) && metadata.mode() & 0o022 == 0
        };
        // The open file, not whatever the name means by now.
        if !trusted(&metadata) {
            return Err(StrictError::Modes { what: "file", path: real });
        }
        let home = home.canonicalize().ok();
        for directory in real.ancestors().skip(1) {
            if !std::fs::metadata(directory).is_ok_and(|metadata| trusted(&metadata)) {
                return Err(StrictError::Modes { what: "directory", path: directory.to_owned() });
            }
            if home.as_deref() == Some(directory) {
                break;
            }
        }
    }
    let mut content = Vec::new();
    file.take(LARGEST_FILE).read_to_end(&mut content).map_err(failed)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn mode(path: &Path, bits: u32) {
        set_permissions(path, Permissions::from_mode(bits)).unwrap();
    }

    fn set_up() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        create_dir(home.path().join(".ssh")).unwrap();
        mode(&home.path().join(".ssh"), 0o700);
        let file = home.path().join(".ssh/authorized_keys");
        write(&file, "keys").unwrap();
        mode(&file, 0o600);
        (home, file)
    }

    #[test]
    fn a_tidy_home_is_read_below_any_parent() {
        let (home, file) = set_up();
        // The directory above the home is /tmp, which everybody may write: the check ends at the home.
        assert_eq!(read(&file, home.path(), uid(), true).unwrap(), b"keys");
    }

    #[test]
    fn writable_by_others_is_refused_in_openssh_s_words() {
        let (home, file) = set_up();
        let real = file.canonicalize().unwrap();
        for bits in [0o620, 0o602, 0o666] {
            mode(&file, bits);
            let error = read(&file, home.path(), uid(), true).unwrap_err().to_string();
            let expected = format!("bad ownership or modes for file {}", real.display());
            assert_eq!(error, format!("Authentication refused: {expected}"));
            assert!(read(&file, home.path(), uid(), false).is_ok());
        }
        mode(&file, 0o600);
        for directory in [real.parent().unwrap(), real.parent().unwrap().parent().unwrap()] {
            mode(directory, 0o770);
            let error = read(&file, home.path(), uid(), true).unwrap_err().to_string();
            let expected = format!("bad ownership or modes for directory {}", directory.display());
            assert_eq!(error, format!("Authentication refused: {expected}"));
            mode(directory, 0o755);
        }
    }

    #[test]
    fn a_file_outside_the_home_is_checked_to_the_root() {
        let (home, file) = set_up();
        let elsewhere = tempfile::tempdir().unwrap();
        let link = elsewhere.path().join("link");
        symlink(&file, &link).unwrap();
        // Reached through a link, but really below the home.
        assert!(read(&link, home.path(), uid(), true).is_ok());
        assert!(matches!(
            read(&file, elsewhere.path(), uid(), true),
            Err(StrictError::Modes { what: "directory", .. })
        ));
    }

    #[test]
    fn another_owner_is_refused() {
        let (home, file) = set_up();
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: giving a file away needs root");
            return;
        }
        chown(&file, Some(12345), None).unwrap();
        assert!(matches!(read(&file, home.path(), 0, true), Err(StrictError::Modes { what: "file", .. })));
        assert!(read(&file, home.path(), 12345, true).is_ok());
    }

    #[test]
    fn missing_and_odd_files() {
        let (home, file) = set_up();
        let missing = read(&home.path().join("nothing"), home.path(), uid(), true);
        assert!(matches!(missing, Err(StrictError::Missing(_))));
        assert!(matches!(read(&file.join("below"), home.path(), uid(), true), Err(StrictError::Missing(_))));
        assert!(matches!(read(home.path(), home.path(), uid(), true), Err(StrictError::NotRegular(_))));
    }
}
