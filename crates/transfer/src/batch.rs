//! The batch of small files that is being put together, and those under way.

pub(crate) mod placing;

use std::time::Instant;

use crate::item::Item;
use crate::table::Table;

/// One file of a batch.
#[derive(Debug)]
pub(crate) struct Small {
    pub(crate) id: u64,
    pub(crate) item: Item,
    pub(crate) size: u64,
    /// Of its content, for [`crate::Options::sums`].
    pub(crate) sum: Option<Vec<u8>>,
}

/// Files that share a message.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) files: Vec<Small>,
    pub(crate) bytes: u64,
    pub(crate) started: Instant,
}

/// The batch that is being put together, and those under way.
#[derive(Debug)]
pub(crate) struct Batches {
    /// Whether the server takes them; `None`: not looked at yet.
    pub(crate) offered: Option<bool>,
    pub(crate) message: Vec<u8>,
    pub(crate) files: Vec<Small>,
    pub(crate) bytes: u64,
    /// Download: what the answer may take.
    pub(crate) asked: usize,
    /// One or more have been.
    pub(crate) sent: bool,
    pub(crate) under_way: Table<Batch>,
}

impl Batches {
    pub(crate) const fn new() -> Self {
        Self {
            offered: None,
            message: Vec::new(),
            files: Vec::new(),
            bytes: 0,
            asked: 0,
            sent: false,
            under_way: Table::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.under_way.len() == 0
    }
}
