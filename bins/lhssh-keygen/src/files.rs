//! Key files: reads with OpenSSH's checks, and writes that never lose a key or expose it.
//!
//! A new file is created under its final name, private from the beginning. An existing file is replaced by
//! renaming a complete copy over it: a full disk or a crash leaves the old key. Only where its directory does
//! not permit that, the file is overwritten. Files that are not regular (`/dev/stdout`, a named pipe) are
//! written directly.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use lh_crypto::{KeyFileError, PrivateKey, PublicKey, Random as _, SystemRandom, Zeroizing};
use lh_security_key::FileKey;
use lh_sys::errno_text;

use crate::console::{shown, warn};

/// Upper limit of a key file, bytes; OpenSSH's limit.
pub(crate) const MAX_KEY_FILE: u64 = 1024 * 1024;
/// Permission bits of group and others, which a private key must not have.
const OTHERS: u32 = 0o077;

/// Why a private key is not usable. `Display` gives the end of OpenSSH's message.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// Other users can read or write the file; a warning has been printed.
    BadPermissions,
    /// The file cannot be read.
    Io(io::Error),
    /// The file is not a key, or needs a passphrase, or another one.
    Key(KeyFileError),
}

impl LoadError {
    /// Returns whether only a passphrase is missing.
    pub(crate) fn wants_passphrase(&self) -> bool {
        matches!(self, Self::Key(KeyFileError::PassphraseNeeded))
    }
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BadPermissions => f.write_str("bad permissions"),
            Self::Io(error) => f.write_str(&errno_text(error)),
            Self::Key(error) => error.fmt(f),
        }
    }
}

/// A private key and its comment.
pub(crate) struct Loaded {
    pub(crate) key: FileKey,
    /// `None` where the format has no comment.
    pub(crate) comment: Option<String>,
}

/// Contents of a private key file.
pub(crate) struct KeyFile(Zeroizing<Vec<u8>>);

impl KeyFile {
    /// Reads a file with private permissions; warns about others and refuses them.
    pub(crate) fn read(path: &Path) -> Result<Self, LoadError> {
        let file = File::open(path).map_err(LoadError::Io)?;
        let about = file.metadata().map_err(LoadError::Io)?;
        check_permissions(path, &about)?;
        Self::read_from(file, about.len())
    }

    /// Like [`read`](Self::read) without the check, for commands that only show public halves.
    pub(crate) fn read_from(file: impl io::Read, expected: u64) -> Result<Self, LoadError> {
        // The final capacity, so that growing leaves no copies of the key behind.
        let capacity = usize::try_from(expected.min(MAX_KEY_FILE) + 1).unwrap_or_default();
        let mut bytes = Zeroizing::new(Vec::with_capacity(capacity));
        file.take(MAX_KEY_FILE + 1).read_to_end(&mut bytes).map_err(LoadError::Io)?;
        if bytes.len() as u64 > MAX_KEY_FILE {
            return Err(LoadError::Key(KeyFileError::InvalidFormat));
        }
        Ok(Self(bytes))
    }

    /// Decrypts the key, with this passphrase or none.
    pub(crate) fn open(&self, passphrase: Option<&[u8]>) -> Result<Loaded, LoadError> {
        let (key, comment) = FileKey::parse(&self.0, passphrase).map_err(LoadError::Key)?;
        let comment = (self.is_openssh() || !comment.is_empty()).then_some(comment);
        Ok(Loaded { key, comment })
    }

    /// The public half, if the format stores it unencrypted.
    pub(crate) fn public(&self) -> Option<PublicKey> {
        PrivateKey::parse_public(&self.0).ok()
    }

    fn is_openssh(&self) -> bool {
        const LABEL: &[u8] = b"-----BEGIN OPENSSH PRIVATE KEY-----";
        self.0.windows(LABEL.len()).any(|window| window == LABEL)
    }
}

/// Refuses a private key of this user that others may read or write, with OpenSSH's warning.
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

/// Writes a private key with permissions for its owner only, also over an existing file.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    write(path, contents, 0o600, OTHERS)
}

/// Writes a public key: mode 0644 less the umask, or the mode of the existing file.
pub(crate) fn write_public(path: &Path, contents: &[u8]) -> io::Result<()> {
    write(path, contents, 0o644, 0)
}

/// Writes a file that is not a key, with the mode that the umask leaves.
pub(crate) fn write_plain(path: &Path, contents: &[u8]) -> io::Result<()> {
    write(path, contents, 0o666, 0)
}

/// Reads a public or private key file.
pub(crate) fn read_limited(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    read_up_to(path, MAX_KEY_FILE)
}

/// Reads a file of at most `most` bytes.
pub(crate) fn read_up_to(path: &Path, most: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = File::open(path)?;
    let expected = file.metadata()?.len().min(most) + 1;
    // The final capacity, so that growing leaves no copies of a key behind.
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

/// Writes a file with `mode` if it is new, else with its existing mode less the bits in `never`.
fn write(path: &Path, contents: &[u8], mode: u32, never: u32) -> io::Result<()> {
    match fs::metadata(path) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
            fill(file, contents).inspect_err(|_| drop(fs::remove_file(path)))
        }
        Err(other) => Err(other),
        Ok(about) if about.is_file() => {
            // The target of a symbolic link is replaced, not the link.
            let real = fs::canonicalize(path)?;
            match replace(&real, contents, &about, never) {
                Err(why) if is_about_the_directory(&why) => write_over(&real, contents, &about, never),
                done => done,
            }
        }
        Ok(about) if about.is_dir() => {
            Err(io::Error::from_raw_os_error(rustix::io::Errno::ISDIR.raw_os_error()))
        }
        Ok(_) => OpenOptions::new().write(true).open(path)?.write_all(contents),
    }
}

/// Replaces the old file by a complete new one.
fn replace(path: &Path, contents: &[u8], about: &fs::Metadata, never: u32) -> io::Result<()> {
    let fresh = beside(path);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    take_over(&file, about, never)
        .and_then(|()| fill(file, contents))
        .and_then(|()| fs::rename(&fresh, path))
        .inspect_err(|_| drop(fs::remove_file(&fresh)))
}

/// Returns whether an error is about the directory, so that the file itself may be writable: the directory
/// belongs to another user, or the file is a mount point, as in containers.
fn is_about_the_directory(why: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(why.kind(), PermissionDenied | ReadOnlyFilesystem | ResourceBusy | CrossesDevices)
}

/// Overwrites the old contents, and restores them on failure, which needs no new disk space.
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

/// Gives the new file the owner and mode of the old one.
fn take_over(file: &File, about: &fs::Metadata, never: u32) -> io::Result<()> {
    let ours = file.metadata()?;
    if (ours.uid(), ours.gid()) != (about.uid(), about.gid()) {
        // Root may change another user's key, and must keep its owner. For other users only the group can
        // differ, which matters little.
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

/// An unused name in the same directory.
fn beside(path: &Path) -> PathBuf {
    let mut random = [0; 8];
    SystemRandom.fill(&mut random);
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(format!(".{:016x}", u64::from_ne_bytes(random)));
    name.into()
}

/// Reads a public key by the name of its file, of its private key's file, or of the file with `.pub`
/// appended. Returns the key and its comment, or the file's name where it has none; `None` when there is no
/// key.
pub(crate) fn load_public(path: &Path) -> Option<(PublicKey, String)> {
    let with_suffix = public_name(path);
    for candidate in [path, &with_suffix] {
        let Ok(bytes) = read_limited(candidate) else { continue };
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().take_while(|line| !line.starts_with("-----BEGIN"));
        let lines = lines.filter(|line| !line.starts_with('#'));
        if let Some((key, comment)) = lines.filter_map(PublicKey::from_openssh_line).next() {
            let comment = if comment.is_empty() { shown(candidate) } else { comment };
            return Some((key, comment));
        }
    }
    let bytes = read_limited(path).ok()?;
    PrivateKey::parse_public(&bytes).ok().map(|key| (key, String::new()))
}
