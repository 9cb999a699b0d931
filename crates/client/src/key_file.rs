//! Key files on disk: reads them with OpenSSH's checks, and finds public halves where OpenSSH does.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lh_crypto::{PrivateKey, PublicKey};
use zeroize::Zeroizing;

/// Largest key file that is read, bytes: OpenSSH's limit.
const MAX_KEY_FILE: u64 = 1024 * 1024;

/// Why a key file is unusable.
#[derive(Debug)]
pub enum ReadFailure {
    /// The file cannot be read.
    Open(io::Error),
    /// Other users may read the file; its mode.
    TooOpen(u32),
}

/// Reads a file that should contain a private key. Like OpenSSH, refuses a file of the user's own that other
/// users can read, whether or not it contains a key.
///
/// # Errors
/// See [`ReadFailure`].
pub fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, ReadFailure> {
    let file = File::open(path).map_err(ReadFailure::Open)?;
    let meta = file.metadata().map_err(ReadFailure::Open)?;
    if meta.uid() == rustix::process::getuid().as_raw() && meta.mode() & 0o077 != 0 {
        return Err(ReadFailure::TooOpen(meta.mode() & 0o777));
    }
    read_limited(&file, meta.len()).map_err(ReadFailure::Open)
}

/// Reads up to 1 MiB (OpenSSH's limit for key files) from a descriptor or standard input.
///
/// # Errors
/// I/O errors.
pub fn read_limited(input: impl Read, expected: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    // Allocated at full size: a growing buffer would leave copies of a secret in memory.
    let size = usize::try_from(expected.min(MAX_KEY_FILE)).unwrap_or(0);
    let mut bytes = Zeroizing::new(Vec::with_capacity(size + 1));
    input.take(MAX_KEY_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the public key in a file and its comment: the first line that is a key, or the public half of a
/// private key that reveals it without a passphrase.
pub fn public_in(path: &Path) -> Option<(PublicKey, String)> {
    let file = File::open(path).ok()?;
    let size = file.metadata().ok().filter(|meta| meta.is_file())?.len();
    let bytes = read_limited(file, size).ok()?;
    public_line(&bytes).or_else(|| PrivateKey::parse_public(&bytes).ok().map(|key| (key, String::new())))
}

/// Returns the first key line of a `.pub` file.
pub fn public_line(bytes: &[u8]) -> Option<(PublicKey, String)> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.lines().find_map(|line| PublicKey::from_openssh_line(line.trim()))
}

/// Returns the public key of `path`: from the file itself, or from the `.pub` file beside it.
///
/// # Errors
/// I/O errors for `path`; [`io::ErrorKind::InvalidData`] if neither file contains a key.
pub fn load_public(path: &Path) -> io::Result<(PublicKey, String)> {
    let beside = with_suffix(path, ".pub");
    // The comment is in the `.pub` file; a private key reveals it only after decryption.
    let found = public_in(path);
    if let Some((key, comment)) = &found
        && comment.is_empty()
        && let Some((same, comment)) = public_in(&beside).filter(|(other, _)| other == key)
    {
        return Ok((same, comment));
    }
    match found.or_else(|| public_in(&beside)) {
        Some(found) => Ok(found),
        None => Err(File::open(path).err().unwrap_or_else(|| io::ErrorKind::InvalidData.into())),
    }
}

/// Returns `path` with `suffix` appended to its name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the warning about a private key that other users can read.
pub fn unprotected(name: &str, mode: u32) -> String {
    format!(
        "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n\
        @         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\n\
        @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n\
        Permissions {mode:04o} for '{name}' are too open.\n\
        It is required that your private key files are NOT accessible by others.\n\
        This private key will be ignored."
    )
}
