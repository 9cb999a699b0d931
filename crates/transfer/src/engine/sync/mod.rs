//! Copying only what differs ([`crate::TreeSync`]): what is remembered of it.
//!
//! The entries of a directory are compared when both ends have listed it, by size and time of modification, so that what
//! is unchanged costs no request ([`super::dirs`] does that). What a listing does not decide is asked for, item by
//! item ([`compare`]).

mod compare;
mod same;

use crate::table::Table;

use super::item::Item;

pub(super) use same::{has_exact_time, is_unchanged, same_time};

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

/// See the module documentation.
#[derive(Debug)]
pub(super) struct SyncState {
    pub(super) compares: Table<Compare>,
}

impl SyncState {
    pub(super) const fn new() -> Self {
        Self { compares: Table::new() }
    }

    /// Nothing is being compared.
    pub(super) fn is_idle(&self) -> bool {
        self.compares.len() == 0
    }
}
