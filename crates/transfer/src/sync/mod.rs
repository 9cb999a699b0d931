//! What is remembered of a copy of what differs ([`crate::TreeSync`]).

pub(crate) mod backup;
pub(crate) mod same;

use std::collections::{HashSet, VecDeque};

use lh_sftp::extended_attrs::Xattrs;

use crate::TreeSync;
use crate::end::{Entry, Handle, Kind, Times};
use crate::item::Item;
use crate::names::join;
use crate::sync::backup::Backups;
use crate::table::{Key, Table};

/// Items that are compared at a time: each asks its questions at once, and keeps its names in memory.
const MOST_COMPARED: usize = 1024;

/// An item that is being compared.
#[derive(Debug)]
pub(crate) struct Compare {
    pub(crate) item: Item,
    /// Answers awaited.
    pub(crate) asked: u8,
    /// It has failed, and the failure was reported.
    pub(crate) failed: bool,
    /// Where the links lead.
    pub(crate) links: [Option<Vec<u8>>; 2],
    /// The extended attributes at both ends.
    pub(crate) xattrs: [Option<Xattrs>; 2],
}

impl Compare {
    pub(crate) const fn new(item: Item) -> Self {
        Self { item, asked: 0, failed: false, links: [None, None], xattrs: [None, None] }
    }
}

/// What a directory of the target has and the source has not.
#[derive(Debug)]
pub(crate) struct Extraneous {
    /// The directory, its path from the top of the tree, and its times.
    pub(crate) directory: Vec<u8>,
    pub(crate) relative: Vec<u8>,
    pub(crate) times: Option<Times>,
    pub(crate) entries: Vec<Entry>,
}

/// How far deleting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionStage {
    /// Something may still be copied.
    Waiting,
    Deleting,
    /// Nothing is to be deleted, or no more.
    Done,
}

/// Something to delete.
#[derive(Debug)]
pub(crate) struct Doomed {
    pub(crate) path: Vec<u8>,
    pub(crate) relative: Vec<u8>,
    pub(crate) is_dir: bool,
    pub(crate) parent: Parent,
}

/// What goes on when something is deleted.
#[derive(Debug, Clone)]
pub(crate) enum Parent {
    /// The directory that it is in: extraneous too, or one that stays.
    Removal(Key),
    /// This is copied to where it was.
    Item(Box<Item>),
}

/// Something being deleted, or a directory that stays while what is in it is deleted.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) path: Vec<u8>,
    pub(crate) relative: Vec<u8>,
    /// None for a directory that stays.
    pub(crate) parent: Option<Parent>,
    /// Its listing.
    pub(crate) handle: Option<Handle>,
    pub(crate) entries: Vec<Entry>,
    /// Things in it, and answers.
    pub(crate) open: u32,
    /// Something in it stays, and so does it.
    pub(crate) keeps: bool,
    /// Its deletion is asked for.
    pub(crate) asked: bool,
    /// Something in it was deleted.
    pub(crate) touched: bool,
    pub(crate) times: Option<Times>,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct SyncState {
    pub(crate) compares: Table<Compare>,
    pub(crate) backups: Backups,
    pub(crate) stage: DeletionStage,
    pub(crate) extraneous: VecDeque<Extraneous>,
    /// Their directories stand where these are to be copied to.
    pub(crate) blocked: Vec<Item>,
    /// Where what the command line names goes.
    pub(crate) tops: HashSet<Vec<u8>>,
    pub(crate) doomed: Vec<Doomed>,
    pub(crate) removals: Table<Removal>,
    /// Deletions that were begun.
    pub(crate) begun: u64,
    /// It was reported that there are more than may be deleted.
    pub(crate) over: bool,
}

impl SyncState {
    pub(crate) fn new(options: Option<&TreeSync>) -> Self {
        let deletes = options.is_some_and(|options| options.delete);
        Self {
            compares: Table::new(),
            backups: Backups::new(options.and_then(|options| options.backup_dir.clone())),
            stage: if deletes { DeletionStage::Waiting } else { DeletionStage::Done },
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
    pub(crate) fn is_finished(&self) -> bool {
        self.compares.len() == 0 && self.stage == DeletionStage::Done && self.removals.len() == 0
    }

    /// True when another item may be compared now.
    pub(crate) fn has_room(&self) -> bool {
        self.compares.len() < MOST_COMPARED
    }

    /// A directory of the target has to go before this can be copied.
    pub(crate) fn delete_before(&mut self, item: Item) {
        self.blocked.push(item);
    }

    /// These are to be deleted first, in the order of their names.
    pub(crate) fn doom(&mut self, key: Key, entries: Vec<Entry>) {
        let Some(removal) = self.removals.get_mut(key) else { return };
        removal.open += entries.len() as u32;
        for entry in entries.into_iter().rev() {
            let path = join(&removal.path, &entry.name);
            let relative = join(&removal.relative, &entry.name);
            let is_dir = entry.info.kind == Kind::Dir;
            self.doomed.push(Doomed { path, relative, is_dir, parent: Parent::Removal(key) });
        }
    }
}

impl Removal {
    pub(crate) const fn new(path: Vec<u8>, relative: Vec<u8>, parent: Option<Parent>) -> Self {
        Self {
            path,
            relative,
            parent,
            handle: None,
            entries: Vec::new(),
            open: 0,
            keeps: false,
            asked: false,
            touched: false,
            times: None,
        }
    }
}
