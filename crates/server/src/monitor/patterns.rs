//! Names of users' files with wildcards (`AuthorizedKeysFile`, `AuthorizedPrincipalsFile`).

use std::path::{Path, PathBuf};

use lh_sys::ids::with_effective;
use lh_sys::users::User;

use super::Monitor;
use crate::log::error;

impl Monitor {
    /// Returns the files that a keyword's value stands for: `path`, or, with wildcards in the value, those that match and
    /// that the user may see.
    pub(super) fn files_of_pattern(
        &self,
        user: &User,
        keyword: &str,
        value: &str,
        path: PathBuf,
    ) -> Vec<PathBuf> {
        if has_wildcards(value) { self.matching_files(user, keyword, &path) } else { vec![path] }
    }

    fn matching_files(&self, user: &User, keyword: &str, pattern: &Path) -> Vec<PathBuf> {
        // What a token stands for is a name and no pattern.
        let plain = !has_wildcards(&user.name) && !has_wildcards(&user.home.to_string_lossy());
        let Some(text) = pattern.to_str().filter(|_| plain) else {
            error!(self.log, "{keyword}: {}: no pattern", pattern.display());
            return Vec::new();
        };
        let found = self
            .groups
            .of(user)
            .and_then(|groups| with_effective(&groups.ids, || lh_config::include::glob(text)));
        found.unwrap_or_else(|problem| {
            error!(self.log, "cannot read files as user {}: {problem}", user.name);
            self.doubt.set(true);
            Vec::new()
        })
    }
}

/// Whether a path is a pattern for several files.
fn has_wildcards(text: &str) -> bool {
    text.contains(['*', '?', '['])
}
