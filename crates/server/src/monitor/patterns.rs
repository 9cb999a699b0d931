//! Wildcards in the names of users' files (`AuthorizedKeysFile`, `AuthorizedPrincipalsFile`).

use std::path::{Path, PathBuf};

use lh_sys::users::User;

/// A path in which wildcards are expanded.
pub(super) struct Pattern<'a>(&'a str);

impl<'a> Pattern<'a> {
    /// Wraps a path whose tokens have been replaced. `None` where the user's name or home directory has
    /// wildcards: they must be taken literally.
    pub(super) fn of(user: &User, path: &'a Path) -> Option<Self> {
        let plain = !has_wildcards(&user.name) && !has_wildcards(&user.home.to_string_lossy());
        path.to_str().filter(|_| plain).map(Self)
    }

    /// Returns the matching files that this process can see. Directories that it may not read have none, as
    /// with OpenSSH.
    pub(super) fn matching_files(&self) -> Vec<PathBuf> {
        lh_config::include::glob(self.0).paths
    }
}

/// Returns whether a path has wildcards.
pub(super) fn has_wildcards(text: &str) -> bool {
    text.contains(['*', '?', '['])
}
