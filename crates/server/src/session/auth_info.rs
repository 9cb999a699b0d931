//! `ExposeAuthInfo`: a file that tells the session how its user has authenticated, named by `SSH_USER_AUTH`.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lh_crypto::{Random, SystemRandom};

/// Directory of the file, inside the chroot if there is one.
pub(super) const DIRECTORY: &str = "/tmp";

/// The file; removed when dropped.
#[derive(Debug)]
pub(super) struct AuthInfo {
    path: PathBuf,
}

impl AuthInfo {
    /// Writes the file, readable only by the user. Must be called with the user's ids.
    ///
    /// # Errors
    /// The directory does not exist, or the file cannot be written.
    pub(super) fn write(proofs: &str) -> io::Result<Self> {
        Self::write_in(Path::new(DIRECTORY), proofs)
    }

    fn write_in(directory: &Path, proofs: &str) -> io::Result<Self> {
        let path = directory.join(format!("sshauth.{}", unguessable()));
        // `create_new`: never opens another user's file or link.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let info = Self { path };
        file.write_all(proofs.as_bytes())?;
        Ok(info)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns a random suffix for a file in a directory that all users may write to.
pub(super) fn unguessable() -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let mut random = [0; 15];
    SystemRandom.fill(&mut random);
    random.into_iter().map(|byte| char::from(LETTERS[usize::from(byte % 64)])).collect()
}

impl Drop for AuthInfo {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_file_is_private_and_goes_with_its_value() {
        let directory = tempfile::tempdir().unwrap();
        let info = AuthInfo::write_in(directory.path(), "password\n").unwrap();
        assert_eq!(std::fs::read_to_string(info.path()).unwrap(), "password\n");
        assert_eq!(std::fs::metadata(info.path()).unwrap().mode() & 0o777, 0o600);
        let other = AuthInfo::write_in(directory.path(), "").unwrap();
        assert_ne!(info.path(), other.path());
        drop((info, other));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
