//! Kerberos credentials that a client has given away (`GSSAPIDelegateCredentials`): a cache that the session's programs find by
//! `KRB5CCNAME`, and that goes with the session (`GSSAPICleanupCredentials`).

use std::path::{Path, PathBuf};

use lh_sys::gssapi::{self, GssError};

use super::auth_info::{FOLDER, unguessable};

/// The cache.
#[derive(Debug)]
pub(super) struct Credentials {
    path: PathBuf,
    name: String,
    cleanup: bool,
}

impl Credentials {
    /// Writes a cache that is the user's alone. To be called as the user, who may be in a chroot: the cache is where his programs
    /// can read it. `cleanup`: it is removed with this value.
    ///
    /// # Errors
    /// These are no credentials, or there is nowhere to write them.
    pub(super) fn write(given: &[u8], uid: u32, cleanup: bool) -> Result<Self, GssError> {
        // Named as OpenSSH names it: tools look for such files. The library makes it new, for its owner alone.
        let path = Path::new(FOLDER).join(format!("krb5cc_{uid}_{}", unguessable()));
        gssapi::store(given, &path)?;
        Ok(Self { name: format!("FILE:{}", path.display()), path, cleanup })
    }

    /// The value of `KRB5CCNAME`.
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
