//! Look-ups of the monitor for one login: groups, files of the user, revoked keys. Each is read once per
//! connection.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lh_config::server_table::ServerSettings;
use lh_crypto::{Certificate, PublicKey};
use lh_sys::ids::with_effective;
use lh_sys::users::User;

use super::patterns::{Pattern, has_wildcards};
use super::revoked::{Revocation, RevokedKeys};
use crate::bounded_lines::{lines_of_text, selected_lines};
use crate::log::{Log, debug, error, info};
use crate::strict::{self, StrictError, UserFile};
use crate::user_groups::{Groups, KnownGroups};

/// Largest sum of the files that are kept for later queries of a connection, bytes.
const MOST_KEPT: usize = 4 << 20;

/// What is read of a file of keys or principals.
enum Content {
    Text(String),
    /// The selected lines of a large file, with their numbers.
    Lines(Vec<(usize, String)>),
}

fn text(content: Vec<u8>) -> String {
    String::from_utf8(content).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// A file that cannot be read, so that its content is unknown; the reason has been logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unreadable;

/// The results of look-ups for one connection, and whether one of them has failed.
pub(super) struct Lookups {
    /// The user's files that have been read, by path.
    files: RefCell<HashMap<PathBuf, Option<Rc<str>>>>,
    revoked: RevokedKeys,
    groups: KnownGroups,
    doubt: Cell<bool>,
    log: Log,
}

impl Lookups {
    pub(super) fn new(log: Log) -> Self {
        Self {
            files: RefCell::default(),
            revoked: RevokedKeys::default(),
            groups: KnownGroups::default(),
            doubt: Cell::default(),
            log,
        }
    }

    /// Returns whether a look-up has failed, so that a negative result may be wrong. A login then fails, but
    /// a session that waits for its client does not end.
    pub(super) const fn in_doubt(&self) -> bool {
        self.doubt.get()
    }

    /// Records that a look-up has failed.
    pub(super) fn set_doubt(&self) {
        self.doubt.set(true);
    }

    /// Frees files and lists: they may be large, and a session may last long.
    pub(super) fn forget(&self) {
        self.revoked.forget();
        self.files.take();
    }

    /// Returns the groups of a user.
    ///
    /// # Errors
    /// The user database cannot be read.
    pub(super) fn groups(&self, user: &User) -> io::Result<Rc<Groups>> {
        self.groups.of(user)
    }

    /// Returns whether the key, or the authority that certified it, is revoked.
    pub(super) fn revocation(&self, settings: &ServerSettings, key: &PublicKey) -> Revocation {
        let own = self.revoked.check(settings, key, &self.log);
        match key.certificate().map(Certificate::authority) {
            Some(authority) if own != Revocation::Yes => {
                own.max(self.revoked.check(settings, authority, &self.log))
            }
            _ => own,
        }
    }

    /// Keeps the text of a file for the next query, unless the texts would take too much memory together.
    fn keep(&self, path: &Path, text: Option<String>) -> Option<Rc<str>> {
        let text: Option<Rc<str>> = text.map(Rc::from);
        let mut files = self.files.borrow_mut();
        let kept: usize = files.values().flatten().map(|text| text.len()).sum();
        if text.as_ref().is_none_or(|text| kept + text.len() <= MOST_KEPT) {
            files.insert(path.to_owned(), text.clone());
        }
        text
    }

    /// Reads a file of the user with `read` and the user's rights. Errors are logged.
    ///
    /// # Errors
    /// The file may contain what is looked for, and cannot be read.
    pub(super) fn read_user_file<T>(
        &self,
        settings: &ServerSettings,
        user: &User,
        kind: &'static str,
        path: &Path,
        read: impl FnOnce(&UserFile<'_>) -> Result<T, StrictError>,
    ) -> Result<Option<T>, Unreadable> {
        let strict = settings.strict_modes.value;
        let read = self.groups.of(user).and_then(|groups| {
            with_effective(&groups.ids, || {
                read(&strict::open(&user.name, kind, path, &user.home, user.uid, strict)?)
            })
        });
        match read {
            Ok(Ok(content)) => Ok(Some(content)),
            Ok(Err(problem @ StrictError::Missing(_))) => {
                debug!(self.log, "{}: {problem}", path.display());
                Ok(None)
            }
            Ok(Err(problem)) => {
                info!(self.log, "{problem}");
                self.doubt.set(self.doubt.get() || problem.is_failure());
                let is_unread = problem.is_failure() || matches!(problem, StrictError::TooLarge { .. });
                if is_unread { Err(Unreadable) } else { Ok(None) }
            }
            Err(problem) => {
                error!(self.log, "cannot read files as user {}: {problem}", user.name);
                self.set_doubt();
                Err(Unreadable)
            }
        }
    }

    /// Returns the lines of one of the user's files for which `selects` returns true, with their numbers
    /// (from 1). Errors are logged.
    pub(super) fn lines(
        &self,
        settings: &ServerSettings,
        user: &User,
        kind: &'static str,
        path: &Path,
        selects: impl Fn(&str) -> bool,
    ) -> Vec<(usize, String)> {
        let lines_of = |text: &str| {
            lines_of_text(text, &selects).map(|(number, line)| (number, line.to_owned())).collect()
        };
        // Read once per connection: a client may query a thousand keys.
        if let Some(known) = self.files.borrow().get(path) {
            return known.as_deref().map(lines_of).unwrap_or_default();
        }
        let read = self.read_user_file(settings, user, kind, path, |file| {
            if file.is_large() {
                file.read_by(|file| selected_lines(file, &selects)).map(Content::Lines)
            } else {
                file.read().map(|content| Content::Text(text(content)))
            }
        });
        match read {
            Ok(Some(Content::Lines(lines))) => lines,
            Ok(Some(Content::Text(text))) => lines_of(&self.keep(path, Some(text)).unwrap_or_default()),
            Ok(None) | Err(Unreadable) => {
                self.keep(path, None);
                Vec::new()
            }
        }
    }

    /// Returns the files that a keyword's value names: `path`, or, if the value has wildcards, the matching
    /// files that the user can see.
    pub(super) fn files_of_pattern(
        &self,
        user: &User,
        keyword: &str,
        value: &str,
        path: PathBuf,
    ) -> Vec<PathBuf> {
        if !has_wildcards(value) {
            return vec![path];
        }
        let Some(pattern) = Pattern::of(user, &path) else {
            error!(self.log, "{keyword}: {}: no pattern", path.display());
            return Vec::new();
        };
        let found =
            self.groups.of(user).and_then(|groups| with_effective(&groups.ids, || pattern.matching_files()));
        found.unwrap_or_else(|problem| {
            error!(self.log, "cannot read files as user {}: {problem}", user.name);
            self.set_doubt();
            Vec::new()
        })
    }
}
