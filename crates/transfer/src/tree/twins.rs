//! Names of one directory that differ by case only, on servers that may take them for one.
//!
//! The second of two such names waits until everything else in its directory is in its place. If something is
//! under it then, although the directory is new, the server takes it for the first name: it is not copied,
//! and is reported.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use crate::end::Entry;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct CaseCollisions {
    /// Hashes of all names, in small letters.
    pub(crate) folded: HashSet<u64>,
    pub(crate) hasher: RandomState,
    pub(crate) waiting: VecDeque<Entry>,
    /// It is being looked at.
    pub(crate) asked: Option<Entry>,
}

impl CaseCollisions {
    /// Notes a name; false where another one differs from it by case only.
    pub(crate) fn is_single(&mut self, name: &[u8]) -> bool {
        let folded = String::from_utf8_lossy(name).to_lowercase();
        self.folded.insert(self.hasher.hash_one(folded))
    }

    pub(crate) fn wait(&mut self, entry: Entry) {
        self.waiting.push_back(entry);
    }
}
