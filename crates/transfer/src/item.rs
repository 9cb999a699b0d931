//! An item to copy: its names at both ends, and the facts about it.

use crate::end::Info;
use crate::table::Key;
use crate::token::Side;

/// Something to copy.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) source: Vec<u8>,
    pub(crate) target: Vec<u8>,
    pub(crate) info: Info,
    /// The directory it is in; none for what the command line names.
    pub(crate) parent: Option<Key>,
    /// Reached through a symbolic link (or named on the command line, which may be one).
    pub(crate) linked: bool,
    /// The copy turned out wrong once and is made again.
    pub(crate) again: bool,
    /// The target's end permits no rename: it is written under its final name.
    pub(crate) in_place: bool,
    /// Its part file gets a random name: another copy took the one that follows from the names.
    pub(crate) own_name: bool,
    /// Not in a batch: an earlier batch may still be working on it.
    pub(crate) alone: bool,
    /// An existing copy is not continued, because it may be wrong.
    pub(crate) fresh: bool,
    /// What is there goes when it is opened: the server did not cut what is longer than the copy, or
    /// something else was written to it.
    pub(crate) emptied: bool,
    /// Number of restarts for what the server did to it, as giving it the handle of another file.
    pub(crate) redone: u8,
    /// The target denied all WRITEs of it before it was emptied.
    pub(crate) denied: bool,
    /// Other names of it wait for its copy.
    pub(crate) leads: bool,
    /// Entry of the target under its name; looked up only by [`crate::TreeSync`].
    pub(crate) there: TargetEntry,
    /// It was compared with `there`, and is to be copied.
    pub(crate) compared: bool,
    /// The existing file goes to the backups before the copy gets its name; true once it has been moved.
    pub(crate) backed_up: Option<bool>,
}

/// The target's entry under a name, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetEntry {
    Unknown,
    Nothing,
    Found(Info),
}

impl Item {
    /// Its path at the end `side`.
    pub(crate) fn path_at(&self, side: Side) -> &[u8] {
        match side {
            Side::Source => &self.source,
            Side::Target => &self.target,
        }
    }

    pub(crate) fn top(source: Vec<u8>, target: Vec<u8>, info: Info) -> Self {
        Self {
            source,
            target,
            info,
            parent: None,
            linked: true,
            again: false,
            in_place: false,
            own_name: false,
            alone: false,
            fresh: false,
            emptied: false,
            redone: 0,
            denied: false,
            leads: false,
            there: TargetEntry::Unknown,
            compared: false,
            backed_up: None,
        }
    }
}
