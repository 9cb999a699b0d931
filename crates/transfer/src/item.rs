//! An item to copy: its names at both ends, and the facts about it.

use crate::end::Info;
use crate::table::Key;
use crate::token::Side;
use crate::turn::Turn;

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
    /// Not in a batch: an earlier batch may still be working on it.
    pub(crate) alone: bool,
    /// Other names of it wait for its copy.
    pub(crate) leads: bool,
    pub(crate) retry: Retry,
    pub(crate) sync: ItemSync,
    /// Its place in the order in which a tree is started, while it may become a directory, or with
    /// `--dry-run` until it is reported.
    pub(crate) turn: Option<Turn>,
}

/// How a file is copied this time, by what earlier attempts have shown. Default: the first attempt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Retry {
    /// The copy turned out wrong once and is made again.
    pub(crate) was_wrong: bool,
    /// The target's end permits no rename: it is written under its final name.
    pub(crate) in_place: bool,
    /// Its part file gets a random name: another copy took the one that follows from the names.
    pub(crate) own_name: bool,
    /// An existing copy is not continued, because it may be wrong.
    pub(crate) fresh: bool,
    /// What is there goes when it is opened: the server did not cut what is longer than the copy, or
    /// something else was written to it.
    pub(crate) emptied: bool,
    /// Number of restarts for what the server did to it, as giving it the handle of another file.
    pub(crate) redone: u8,
    /// The target denied all WRITEs of it before it was emptied.
    pub(crate) denied: bool,
}

impl Retry {
    /// Returns true where the item was not begun before.
    pub(crate) const fn is_first(self) -> bool {
        !self.was_wrong && !self.in_place && !self.fresh
    }
}

/// What [`crate::TreeSync`] has found at the target of an item, and what it has decided. Default: nothing
/// yet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ItemSync {
    /// Entry of the target under the item's name.
    pub(crate) there: TargetEntry,
    /// The item was compared with `there`, and is to be copied.
    pub(crate) compared: bool,
    pub(crate) backup: BackupState,
}

/// The target's entry under a name, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TargetEntry {
    #[default]
    Unknown,
    Nothing,
    Found(Info),
}

/// What becomes of the existing file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum BackupState {
    /// It is replaced.
    #[default]
    Unwanted,
    /// It goes to the backups before the copy gets its name.
    Due,
    /// It was moved there.
    Made,
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
            alone: false,
            leads: false,
            retry: Retry::default(),
            sync: ItemSync::default(),
            turn: None,
        }
    }
}
