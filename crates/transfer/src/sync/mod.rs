//! What is remembered of a copy of what differs ([`crate::TreeSync`]).

pub(crate) mod backup;
pub(crate) mod deletions;
pub(crate) mod same;
pub(crate) mod terms;

use lh_sftp::extended_attrs::Xattrs;

use crate::TreeSync;
use crate::item::Item;
use crate::sync::backup::Backups;
use crate::sync::deletions::Deletions;
use crate::table::Table;

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

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct SyncState {
    pub(crate) compares: Table<Compare>,
    pub(crate) backups: Backups,
    pub(crate) deletions: Deletions,
}

impl SyncState {
    pub(crate) fn new(options: Option<&TreeSync>, dry_run: bool) -> Self {
        Self {
            compares: Table::new(),
            backups: Backups::new(options.and_then(|options| options.backup_dir.clone())),
            deletions: Deletions::new(options, dry_run),
        }
    }

    /// Returns true when nothing is being compared, and nothing left to be deleted.
    pub(crate) fn is_finished(&self) -> bool {
        self.compares.len() == 0 && self.deletions.are_finished()
    }

    /// Returns true when another item may be compared now.
    pub(crate) fn has_room(&self) -> bool {
        self.compares.len() < MOST_COMPARED
    }
}
