//! Kerberos credentials that a client has delegated (`GSSAPIDelegateCredentials`). The session's programs
//! find their cache by `KRB5CCNAME`; it is removed with the session (`GSSAPICleanupCredentials`).

use std::path::{Path, PathBuf};

use lh_sys::gssapi::{self, GssError};

use super::auth_info::{DIRECTORY, unguessable};

/// A file with the user's credential cache.
#[derive(Debug)]
pub(super) struct Credentials {
    path: PathBuf,
    name: String,
    cleanup: bool,
}

impl Credentials {
    /// Writes a cache that only the user can read. Must be called with the user's ids and, if there is one,
    /// inside the chroot: the user's programs must find the file. `cleanup`: the cache is removed when this
    /// value is dropped.
    ///
    /// # Errors
    /// The credentials are invalid, or the cache cannot be written.
    pub(super) fn write(given: &[u8], uid: u32, cleanup: bool) -> Result<Self, GssError> {
        // OpenSSH's file name, which tools look for. The library creates a new file with mode 0600.
        let path = Path::new(DIRECTORY).join(format!("krb5cc_{uid}_{}", unguessable()));
        gssapi::store(given, &path)?;
        Ok(Self { name: format!("FILE:{}", path.display()), path, cleanup })
    }

    /// Returns the value of `KRB5CCNAME`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        if self.cleanup {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
