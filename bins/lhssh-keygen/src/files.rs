//! Key files: read with the checks OpenSSH makes, written so that nothing can be lost or seen by others.
//!
//! A new file is made under its own name, private from the first instant. One that exists is replaced by renaming a
//! complete copy over it: a full disk or a crash leaves the old key. Only where its folder does not allow that it is written
//! over. What is no regular file (`/dev/stdout`, a named pipe) is
//! written to as it is.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use lh_crypto::{KeyFileError, PrivateKey, PublicKey, Random as _, SystemRandom, Zeroizing};
use lh_security_key::FileKey;

use crate::talk::{reason, shown, warn};

/// Longest key file that is read; OpenSSH's limit.
pub(crate) const MAX_KEY_FILE: u64 = 1024 * 1024;
/// Bits that let others at a private key.
const OTHERS: u32 = 0o077;

/// Why a private key cannot be used. Its text is the end of OpenSSH's messages.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// Others can read or write the file; a warning has been shown.
    BadPermissions,
    /// It cannot be read.
    Io(io::Error),
    /// It is no key, or needs (another) passphrase.
    Key(KeyFileError),
}

impl LoadError {
    /// Whether a passphrase is all that is missing.
    pub(crate) fn wants_passphrase(&self) -> bool {
        matches!(self, Self::Key(KeyFileError::PassphraseNeeded))
    }
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BadPermissions => f.write_str("bad permissions"),
            Self::Io(error) => f.write_str(&reason(error)),
            Self::Key(error) => error.fmt(f),
        }
    }
}

/// A private key and what its file says about it.
pub(crate) struct Loaded {
    pub(crate) key: FileKey,
    /// `None` where the format has no place for one.
    pub(crate) comment: Option<String>,
}

/// The bytes of a private key file.
pub(crate) struct KeyFile(Zeroizing<Vec<u8>>);

impl KeyFile {
    /// Reads a file that is ours alone; warns about one that is not.
    pub(crate) fn read(path: &Path) -> Result<Self, LoadError> {
        let file = File::open(path).map_err(LoadError::Io)?;
        let about = file.metadata().map_err(LoadError::Io)?;
        check_permissions(path, &about)?;
        Self::read_from(file, about.len())
    }

    /// The same without the check, for what shows public halves only.
    pub(crate) fn read_from(file: impl io::Read, expected: u64) -> Result<Self, LoadError> {
        // Room for all of it, so that growing leaves no copies behind.
        let room = usize::try_from(expected.min(MAX_KEY_FILE) + 1).unwrap_or_default();
        let mut bytes = Zeroizing::new(Vec::with_capacity(room));
        file.take(MAX_KEY_FILE + 1).read_to_end(&mut bytes).map_err(LoadError::Io)?;
        if bytes.len() as u64 > MAX_KEY_FILE {
            return Err(LoadError::Key(KeyFileError::InvalidFormat));
        }
        Ok(Self(bytes))
    }

    /// The key, opened with this passphrase or none.
    pub(crate) fn open(&self, passphrase: Option<&[u8]>) -> Result<Loaded, LoadError> {
        let (key, comment) = FileKey::parse(&self.0, passphrase).map_err(LoadError::Key)?;
        let comment = (self.is_openssh() || !comment.is_empty()).then_some(comment);
        Ok(Loaded { key, comment })
    }

    /// The public half, without a passphrase where the format allows it.
    pub(crate) fn public(&self) -> Option<PublicKey> {
        PrivateKey::parse_public(&self.0).ok()
    }

    fn is_openssh(&self) -> bool {
        const LABEL: &[u8] = b"-----BEGIN OPENSSH PRIVATE KEY-----";
        self.0.windows(LABEL.len()).any(|window| window == LABEL)
    }
}

/// Refuses a private key of ours that others may read or write, with OpenSSH's warning.
pub(crate) fn check_permissions(path: &Path, about: &fs::Metadata) -> Result<(), LoadError> {
    if about.uid() != rustix::process::getuid().as_raw() || about.mode() & OTHERS == 0 {
        return Ok(());
    }
    let frame = "@".repeat(59);
    warn(&format!(
        "{frame}\n@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\n{frame}\n\
         Permissions 0{:03o} for '{}' are too open.\n\
         It is required that your private key files are NOT accessible by others.\n\
         This private key will be ignored.",
        about.mode() & 0o777,
        shown(path)
    ));
    Err(LoadError::BadPermissions)
}

/// Writes a private key: for its owner only, whatever was there before.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    write(path, contents, 0o600, OTHERS)
}

/// Writes a public key: 0644 less the umask, or with the mode the file had.
pub(crate) fn write_public(path: &Path, contents: &[u8]) -> io::Result<()> {
    write(path, contents, 0o644, 0)
}

/// Writes a file that is no secret and no key: as the umask has it.
pub(crate) fn write_plain(path: &Path, contents: &[u8]) -> io::Result<()> {
    write(path, contents, 0o666, 0)
}

/// Reads a key file of either kind.
pub(crate) fn read_limited(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    read_up_to(path, MAX_KEY_FILE)
}

/// Reads a file that is not longer than it may be.
pub(crate) fn read_up_to(path: &Path, most: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = File::open(path)?;
    let expected = file.metadata()?.len().min(most) + 1;
    // In full, so that growing leaves no copies of a key behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(expected).unwrap_or_default()));
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// `path.pub`.
pub(crate) fn public_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

/// Writes a file with `mode` if it is new, else with the mode it had less the bits in `never`.
fn write(path: &Path, contents: &[u8], mode: u32, never: u32) -> io::Result<()> {
    match fs::metadata(path) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
            fill(file, contents).inspect_err(|_| drop(fs::remove_file(path)))
        }
        Err(other) => Err(other),
        Ok(about) if about.is_file() => {
            // Behind a symbolic link the file itself is replaced, not the link.
            let real = fs::canonicalize(path)?;
            match replace(&real, contents, &about, never) {
                Err(why) if is_about_the_folder(&why) => write_over(&real, contents, &about, never),
                done => done,
            }
        }
        Ok(about) if about.is_dir() => {
            Err(io::Error::from_raw_os_error(rustix::io::Errno::ISDIR.raw_os_error()))
        }
        Ok(_) => OpenOptions::new().write(true).open(path)?.write_all(contents),
    }
}

/// Puts a complete new file in the old one's place.
fn replace(path: &Path, contents: &[u8], about: &fs::Metadata, never: u32) -> io::Result<()> {
    let fresh = beside(path);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    take_over(&file, about, never)
        .and_then(|()| fill(file, contents))
        .and_then(|()| fs::rename(&fresh, path))
        .inspect_err(|_| drop(fs::remove_file(&fresh)))
}

/// Whether nothing in the folder can be replaced, though the file itself may be writable: the folder is somebody else's, or
/// the file is mounted there on its own, as containers have it.
fn is_about_the_folder(why: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(why.kind(), PermissionDenied | ReadOnlyFilesystem | ResourceBusy | CrossesDevices)
}

/// Writes over the old contents and puts them back if that fails, which needs no new room on the disk.
fn write_over(path: &Path, contents: &[u8], about: &fs::Metadata, never: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut old = Zeroizing::new(Vec::with_capacity(usize::try_from(about.len()).unwrap_or_default() + 1));
    (&file).take(MAX_KEY_FILE + 1).read_to_end(&mut old)?;
    if old.len() as u64 > MAX_KEY_FILE {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    if about.mode() & never != 0 {
        file.set_permissions(fs::Permissions::from_mode(about.mode() & 0o777 & !never))?;
    }
    let put = |file: &mut File, bytes: &[u8]| {
        file.rewind()?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        file.sync_all()
    };
    put(&mut file, contents).inspect_err(|_| drop(put(&mut file, &old)))
}

/// Gives the new file the owner and the mode of the old.
fn take_over(file: &File, about: &fs::Metadata, never: u32) -> io::Result<()> {
    let ours = file.metadata()?;
    if (ours.uid(), ours.gid()) != (about.uid(), about.gid()) {
        // Root may change somebody else's key, which stays theirs. For others only the group can differ, which matters little.
        let done = std::os::unix::fs::fchown(file, Some(about.uid()), Some(about.gid()));
        if ours.uid() != about.uid() {
            done?;
        }
    }
    file.set_permissions(fs::Permissions::from_mode(about.mode() & 0o777 & !never))
}

fn fill(mut file: File, contents: &[u8]) -> io::Result<()> {
    file.write_all(contents)?;
    file.sync_all()
}

/// A name in the same folder that nobody else has.
fn beside(path: &Path) -> PathBuf {
    let mut random = [0; 8];
    SystemRandom.fill(&mut random);
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(format!(".{:016x}", u64::from_ne_bytes(random)));
    name.into()
}
