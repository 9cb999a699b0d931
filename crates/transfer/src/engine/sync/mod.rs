//! Copying only what differs ([`crate::TreeSync`]): what is remembered of it.
//!
//! The entries of a directory are compared when both ends have listed it, by size and time of modification, so that what
//! is unchanged costs no request ([`super::dirs`] does that). What a listing does not decide is asked for, item by
//! item ([`compare`], [`contents`]). What the source does not have is deleted at the end ([`removal`]). Both
//! may be moved elsewhere instead ([`backup`]).

mod backup;
mod compare;
mod contents;
mod removal;
mod same;

use std::collections::{HashSet, VecDeque};

use crate::TreeSync;
use crate::end::{Entry, Handle, Times};
use crate::table::{Key, Table};

use super::item::Item;

pub(super) use same::{has_exact_time, is_newer, is_unchanged, same_time};

/// Which question about an item an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SyncStep {
    /// What the source is, links followed.
    Source,
    /// What the target has under the name.
    Target,
    /// Where the two symbolic links lead.
    SourceLink,
    TargetLink,
    /// What stands in the way is removed.
    Cleared,
    /// Attributes of a file that is unchanged.
    Owner,
    Attributes,
}

/// An item that is being compared.
#[derive(Debug)]
pub(super) struct Compare {
    pub(super) item: Item,
    /// Answers awaited.
    pub(super) asked: u8,
    /// It has failed, and that is told.
    pub(super) failed: bool,
    /// Where the links lead.
    pub(super) links: [Option<Vec<u8>>; 2],
}

impl Compare {
    pub(super) const fn new(item: Item) -> Self {
        Self { item, asked: 0, failed: false, links: [None, None] }
    }
}

/// Which question about a deletion an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RemovalStep {
    List,
    ListMore,
    /// Of the thing itself.
    Delete,
    /// The times of the directory that it was in.
    Restore,
}

/// What a directory of the target has and the source has not.
#[derive(Debug)]
pub(super) struct Extraneous {
    /// The directory, its path from the top of the tree, and its times.
    pub(super) directory: Vec<u8>,
    pub(super) relative: Vec<u8>,
    pub(super) times: Option<Times>,
    pub(super) entries: Vec<Entry>,
}

/// How far deleting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Something may still be copied.
    Waiting,
    Deleting,
    /// Nothing is to be deleted, or no more.
    Done,
}

/// What goes on when something is moved away.
#[derive(Debug, Clone, Copy)]
pub(super) enum Replaced {
    ByFile(Key),
    ByName(Key),
    Compared(Key),
    Deleted(Key),
}

/// Something that is being moved away.
#[derive(Debug)]
struct Backup {
    from: Vec<u8>,
    to: Vec<u8>,
    whose: Replaced,
    /// Directories that are still to be made, the last one first; none before the first attempt.
    missing: Option<Vec<Vec<u8>>>,
    /// One of them is being made.
    making: bool,
}

/// Something to delete.
#[derive(Debug)]
struct Doomed {
    path: Vec<u8>,
    relative: Vec<u8>,
    is_dir: bool,
    parent: Parent,
}

/// What goes on when something is deleted.
#[derive(Debug, Clone)]
enum Parent {
    /// The directory that it is in: extraneous too, or one that stays.
    Removal(Key),
    /// This is copied to where it was.
    Item(Box<Item>),
}

/// Something being deleted, or a directory that stays while what is in it is deleted.
#[derive(Debug)]
struct Removal {
    path: Vec<u8>,
    relative: Vec<u8>,
    /// None for a directory that stays.
    parent: Option<Parent>,
    /// Its listing.
    handle: Option<Handle>,
    entries: Vec<Entry>,
    /// Things in it, and answers.
    open: u32,
    /// Something in it stays, and so does it.
    keeps: bool,
    /// Its deletion is asked for.
    asked: bool,
    /// Something in it was deleted.
    touched: bool,
    times: Option<Times>,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct SyncState {
    pub(super) compares: Table<Compare>,
    backups: Table<Backup>,
    stage: Stage,
    extraneous: VecDeque<Extraneous>,
    /// Their directories stand where these are to be copied to.
    blocked: Vec<Item>,
    /// Where what the command line names goes.
    tops: HashSet<Vec<u8>>,
    doomed: Vec<Doomed>,
    removals: Table<Removal>,
    /// Deletions that were begun.
    begun: u64,
    /// That there are more than may be is told.
    over: bool,
}

impl SyncState {
    pub(super) fn new(options: Option<&TreeSync>) -> Self {
        let deletes = options.is_some_and(|options| options.delete);
        Self {
            compares: Table::new(),
            backups: Table::new(),
            stage: if deletes { Stage::Waiting } else { Stage::Done },
            extraneous: VecDeque::new(),
            blocked: Vec::new(),
            tops: HashSet::new(),
            doomed: Vec::new(),
            removals: Table::new(),
            begun: 0,
            over: false,
        }
    }

    /// True when nothing is being compared, and nothing left to be deleted.
    pub(super) fn is_finished(&self) -> bool {
        self.compares.len() == 0 && self.stage == Stage::Done && self.removals.len() == 0
    }
}
