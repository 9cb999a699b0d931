//! Symbolic links being made, and files with several names.

use std::collections::HashMap;

use crate::item::Item;
use crate::table::Table;

/// Names being made, and files whose other names are to come.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) names: Table<Name>,
    pub(crate) shared: SharedFiles,
}

impl Links {
    /// True when no name is being made.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.len() == 0
    }
}

/// A name being made.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) id: u64,
    pub(crate) item: Item,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// A symbolic link that leads there.
    Symlink(Vec<u8>),
    /// Another name of this copy, and the sum of its content, where that is known.
    Hard(Vec<u8>, Option<Vec<u8>>),
}

/// Files with several names that are remembered until the last of them is met. Beyond that the names of further ones
/// become files of their own.
pub(crate) const MOST_SHARED: usize = 256 * 1024;

/// A file that has several names.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) copy: FirstCopy,
    /// Names that have not been met.
    pub(crate) left: u64,
    /// Nothing was copied: the target had this file under the first name, with this identity where it is known.
    pub(crate) unchanged: Option<Option<(u64, u64)>>,
}

#[derive(Debug)]
pub(crate) enum FirstCopy {
    /// Its first name is being copied; others wait.
    Waiting(Vec<(u64, Item)>),
    /// Its copy is there; the sum of its content, where that is known.
    There(Vec<u8>, Option<Vec<u8>>),
}

/// By device and inode of the source.
pub(crate) type SharedFiles = HashMap<(u64, u64), Shared>;
