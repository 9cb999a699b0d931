//! Names of users' files with wildcards (`AuthorizedKeysFile`, `AuthorizedPrincipalsFile`).

use std::path::{Path, PathBuf};

use lh_sys::users::User;

/// A path with wildcards.
pub(super) struct Pattern<'a>(&'a str);

impl<'a> Pattern<'a> {
    /// Takes a path whose tokens have been replaced. `None` where a token has brought wildcards along: what a token stands for
    /// is a name and no pattern.
    pub(super) fn of(user: &User, path: &'a Path) -> Option<Self> {
        let plain = !has_wildcards(&user.name) && !has_wildcards(&user.home.to_string_lossy());
        path.to_str().filter(|_| plain).map(Self)
    }

    /// The files that match and that this process may see.
    pub(super) fn matching_files(&self) -> Vec<PathBuf> {
        lh_config::include::glob(self.0)
    }
}

/// Whether a path is a pattern for several files.
pub(super) fn has_wildcards(text: &str) -> bool {
    text.contains(['*', '?', '['])
}
