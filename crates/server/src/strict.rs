//! `StrictModes`: files that decide about logins must be writable only by their owner.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lh_sys::private_group::{Place, only_owner_writes};
use rustix::io::Errno;

/// Largest file that is read, bytes. No administrator writes a larger one, and a session must not be made to
/// read it.
const LARGEST_FILE: u64 = 64 << 20;

/// Size above which a file of keys or principals is read in pieces, bytes. The user writes it, and each
/// unauthenticated connection for that user would have it in memory.
const LARGE_FILE: u64 = 1 << 20;

/// Mode bit of directories in which only the owner of an entry can remove or rename it.
const STICKY: u32 = 0o1000;

/// Initial buffer size, bytes: the usual file fits.
const USUAL_FILE: usize = 8 << 10;

/// Why a file is not read. `Display` is OpenSSH's text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StrictError {
    /// The file does not exist; not worth a log line.
    #[error("{0}")]
    Missing(io::Error),
    /// The file cannot be opened or read.
    #[error("Could not open user '{user}' {kind} '{}': {}", path.display(), lh_sys::errno_text(error))]
    Open {
        /// Name of the user whose file it is.
        user: String,
        /// The kind of content, for messages.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of opening or reading.
        error: io::Error,
    },
    /// The path is a directory, a device or a pipe.
    #[error("User '{user}' {kind} '{}' is not a regular file", path.display())]
    NotRegular {
        /// Name of the user whose file it is.
        user: String,
        /// The kind of expected content, for messages.
        kind: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The file or a directory above it belongs to another user, or others may write it.
    #[error("Authentication refused: bad ownership or modes for {what} {path}")]
    Modes {
        /// `file` or `directory`.
        what: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
    },
    /// The file is larger than any sensible one.
    #[error("User '{user}' {kind} '{}' is too large", path.display())]
    TooLarge {
        /// Name of the user whose file it is.
        user: String,
        /// The kind of content, for messages.
        kind: &'static str,
        /// The file.
        path: PathBuf,
    },
}

impl StrictError {
    /// Returns whether the file system has failed, so that the file may contain what is looked for.
    pub(crate) fn is_failure(&self) -> bool {
        let Self::Open { error, .. } = self else { return false };
        let is_answer = [Errno::ACCESS, Errno::PERM, Errno::LOOP, Errno::NOTDIR].map(Some);
        !is_answer.contains(&Errno::from_io_error(error))
    }
}

/// An open file of a user, and how to name it in errors.
pub(crate) struct UserFile<'a> {
    file: File,
    size: u64,
    user: &'a str,
    kind: &'static str,
    path: &'a Path,
}

impl UserFile<'_> {
    /// Returns whether the file is better read in pieces.
    pub(crate) const fn is_large(&self) -> bool {
        self.size > LARGE_FILE
    }

    /// Reads the file as a whole.
    pub(crate) fn read(&self) -> Result<Vec<u8>, StrictError> {
        // Avoids the standard library's first reads of 32 bytes for files of unknown size.
        let mut content = Vec::with_capacity(USUAL_FILE);
        self.read_by(|mut file| file.read_to_end(&mut content))?;
        Ok(content)
    }

    /// Reads the file with `read`, in pieces.
    pub(crate) fn read_by<T>(
        &self,
        read: impl FnOnce(BufReader<io::Take<&File>>) -> io::Result<T>,
    ) -> Result<T, StrictError> {
        let file = BufReader::with_capacity(USUAL_FILE, (&self.file).take(LARGEST_FILE));
        read(file).map_err(|error| failed(self.user, self.kind, self.path, error))
    }
}

/// Opens a file that the user `uid` with this home directory controls. `user` is the user's name and `kind`
/// the kind of content, for messages.
///
/// With `strict`, the file and every directory from it up to the home directory (or to `/`, if the file is
/// not below it) must belong to the user or root and be writable only by their owner, or by a group that has
/// no other member. The calling process must have the user's ids: reading uses its rights.
pub(crate) fn open<'a>(
    user: &'a str,
    kind: &'static str,
    path: &'a Path,
    home: &Path,
    uid: u32,
    strict: bool,
) -> Result<UserFile<'a>, StrictError> {
    let failed = |error| failed(user, kind, path, error);
    // Without blocking, if there is a FIFO at the path.
    let file: File = rustix::fs::open(
        path,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .map_err(|errno| failed(errno.into()))?
    .into();
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(StrictError::NotRegular { user: user.to_owned(), kind, path: path.to_owned() });
    }
    if metadata.len() > LARGEST_FILE {
        return Err(StrictError::TooLarge { user: user.to_owned(), kind, path: path.to_owned() });
    }
    if strict {
        let real = path.canonicalize().map_err(failed)?;
        // Checks the open file, because the path may name another one by now.
        if !only_owner_writes(&metadata, Place::Open(&file), uid) {
            return Err(StrictError::Modes { what: "file", path: real });
        }
        let home = home.canonicalize().ok();
        let is_sound = |path: &Path, metadata: &Metadata| only_owner_writes(metadata, Place::At(path), uid);
        if let Some(directory) = weak_directory(&real, home.as_deref(), &is_sound) {
            return Err(StrictError::Modes { what: "directory", path: directory.to_owned() });
        }
    }
    Ok(UserFile { file, size: metadata.len(), user, kind, path })
}

fn failed(user: &str, kind: &'static str, path: &Path, error: io::Error) -> StrictError {
    match error.kind() {
        io::ErrorKind::NotFound => StrictError::Missing(error),
        _ => StrictError::Open { user: user.to_owned(), kind, path: path.to_owned(), error },
    }
}

/// Returns the first directory above `path`, up to `home` or the root, that is not sound.
fn weak_directory<'a>(
    path: &'a Path,
    home: Option<&Path>,
    is_sound: &dyn Fn(&Path, &Metadata) -> bool,
) -> Option<&'a Path> {
    for directory in path.ancestors().skip(1) {
        if !std::fs::metadata(directory).is_ok_and(|metadata| is_sound(directory, &metadata)) {
            return Some(directory);
        }
        if home == Some(directory) {
            break;
        }
    }
    None
}

/// Why the server does not run a program. `Display` is for the log, without the program's name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// The program does not exist or cannot be examined.
    #[error("{}", lh_sys::errno_text(.0))]
    Unreachable(#[from] io::Error),
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    /// The file or a directory above it is not root's, or others can write it.
    #[error("bad ownership or modes for {what} {}", path.display())]
    Modes {
        /// `file` or `directory`.
        what: &'static str,
        path: PathBuf,
    },
}

/// Checks a program that the server runs to decide about logins: it and every directory above it must be
/// root's and writable only by their owner.
///
/// # Errors
/// The program does not exist, or another user can change it.
pub(crate) fn check_program(path: &Path) -> Result<(), ProgramError> {
    let real = path.canonicalize()?;
    let metadata = std::fs::metadata(&real)?;
    if !metadata.is_file() {
        return Err(ProgramError::NotRegular(real));
    }
    let is_root_s = |_: &Path, metadata: &Metadata| metadata.uid() == 0 && metadata.mode() & 0o022 == 0;
    if !is_root_s(&real, &metadata) {
        return Err(ProgramError::Modes { what: "file", path: real });
    }
    match weak_directory(&real, None, &is_root_s) {
        Some(directory) => Err(ProgramError::Modes { what: "directory", path: directory.to_owned() }),
        None => Ok(()),
    }
}

/// Returns the first link or directory on the path of a directory that another user could replace: it, or the
/// directory above it, belongs to another user, or others may write to that one without the sticky bit. The
/// directory at the end of the path, which need not exist, may be writable.
pub(crate) fn replaceable_directory(path: &Path) -> Option<&Path> {
    let belongs_to_others =
        |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|metadata| !is_trusted_owner(metadata.uid()));
    if belongs_to_others(path) {
        return Some(path);
    }
    let own = rustix::process::geteuid().as_raw();
    let is_sound = |path: &Path, metadata: &Metadata| {
        let keeps_entries = metadata.mode() & STICKY != 0 && is_trusted_owner(metadata.uid());
        (keeps_entries || only_owner_writes(metadata, Place::At(path), own)) && !belongs_to_others(path)
    };
    weak_directory(path, None, &is_sound)
}

/// Returns whether a user may own what this process trusts: root, or the user that it runs as.
fn is_trusted_owner(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
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

    fn read_keys(path: &Path, home: &Path, uid: u32, strict: bool) -> Result<Vec<u8>, StrictError> {
        open("ada", "authorized keys", path, home, uid, strict)?.read()
    }

    #[test]
    fn programs_must_be_root_s_alone() {
        let check_program = |path: &Path| super::check_program(path).map_err(|problem| problem.to_string());
        assert_eq!(check_program(Path::new("/bin/sh")), Ok(()));
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        write(&program, "#!/bin/sh").unwrap();
        mode(&program, 0o775);
        let text = check_program(&program).unwrap_err();
        assert_eq!(text, format!("bad ownership or modes for file {}", program.display()));
        mode(&program, 0o755);
        // All users may write to /tmp.
        let text = check_program(&program).unwrap_err();
        assert!(text.starts_with("bad ownership or modes for"), "{text}");
        assert_eq!(check_program(Path::new("/no/such")), Err("No such file or directory".to_owned()));
        assert_eq!(check_program(Path::new("/usr/bin")), Err("/usr/bin is not a regular file".to_owned()));
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
        // The directory above the home is /tmp, which all users may write to: the check ends at the home.
        assert_eq!(read_keys(&file, home.path(), uid(), true).unwrap(), b"keys");
    }

    #[test]
    fn writable_by_others_is_refused_in_openssh_s_words() {
        let (home, file) = set_up();
        let real = file.canonicalize().unwrap();
        // Files are root's group's here, or the user's own group's, which may be private.
        let is_private =
            |path: &Path| lh_sys::private_group::is_private(std::fs::metadata(path).unwrap().gid(), uid());
        for bits in [0o620, 0o602, 0o666] {
            mode(&file, bits);
            if bits & 0o002 == 0 && is_private(&file) {
                assert_eq!(read_keys(&file, home.path(), uid(), true).unwrap(), b"keys");
                if rustix::process::geteuid().is_root() {
                    chown(&file, None, Some(12345)).unwrap();
                } else {
                    continue;
                }
            }
            let error = read_keys(&file, home.path(), uid(), true).unwrap_err().to_string();
            let expected = format!("bad ownership or modes for file {}", real.display());
            assert_eq!(error, format!("Authentication refused: {expected}"));
            assert!(read_keys(&file, home.path(), uid(), false).is_ok());
        }
        mode(&file, 0o600);
        for directory in [real.parent().unwrap(), real.parent().unwrap().parent().unwrap()] {
            mode(directory, if is_private(directory) { 0o757 } else { 0o770 });
            let error = read_keys(&file, home.path(), uid(), true).unwrap_err().to_string();
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
        assert!(read_keys(&link, home.path(), uid(), true).is_ok());
        assert!(matches!(
            read_keys(&file, elsewhere.path(), uid(), true),
            Err(StrictError::Modes { what: "directory", .. })
        ));
    }

    #[test]
    fn another_owner_is_refused() {
        let (home, file) = set_up();
        if !rustix::process::geteuid().is_root() {
            return lh_testkit::skip("another_owner_is_refused", "giving a file away needs root");
        }
        chown(&file, Some(12345), None).unwrap();
        assert!(matches!(
            read_keys(&file, home.path(), 0, true),
            Err(StrictError::Modes { what: "file", .. })
        ));
        assert!(read_keys(&file, home.path(), 12345, true).is_ok());
    }

    #[test]
    fn missing_and_odd_files() {
        let (home, file) = set_up();
        let missing = read_keys(&home.path().join("nothing"), home.path(), uid(), true);
        assert!(matches!(missing, Err(StrictError::Missing(_))));
        let below = file.join("below");
        let error = read_keys(&below, home.path(), uid(), true).unwrap_err();
        assert!(!error.is_failure());
        let expected =
            format!("Could not open user 'ada' authorized keys '{}': Not a directory", below.display());
        assert_eq!(error.to_string(), expected);
        let error = read_keys(home.path(), home.path(), uid(), true).unwrap_err().to_string();
        let expected =
            format!("User 'ada' authorized keys '{}' is not a regular file", home.path().display());
        assert_eq!(error, expected);
    }
}
