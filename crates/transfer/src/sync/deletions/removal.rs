//! Things to be deleted, and what goes on when one of them is.

use crate::end::{Entry, Fault, Handle, Times};
use crate::item::Item;
use crate::table::Key;

/// Something to delete.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) path: Vec<u8>,
    /// Its path from the top of the tree.
    pub(super) relative: Vec<u8>,
    pub(super) is_dir: bool,
    pub(super) parent: Parent,
}

/// Something on the stack of what is to be deleted.
#[derive(Debug)]
pub(super) enum Waiting {
    New(Pending),
    /// A directory that is listed ahead, as this removal.
    Begun(Key),
}

/// What is known of the contents of a directory that is to be deleted.
#[derive(Debug, Default)]
pub(super) enum Contents {
    /// It is being listed, or is no directory.
    #[default]
    Unknown,
    /// What is to be deleted in it, in the order of names.
    Listed(Vec<Entry>),
    /// Its contents are on the stack.
    Queued,
    /// It is gone.
    Missing,
    Unlistable(Fault),
}

/// The work that continues after a deletion.
#[derive(Debug)]
pub(super) enum Parent {
    /// The directory that it is in: extraneous too, or one that stays.
    Removal(Key),
    /// This is copied to where it was.
    Item(Box<Item>),
}

/// Something being deleted, or a directory that stays while what is in it is deleted.
#[derive(Debug)]
pub(super) struct Removal {
    pub(super) path: Vec<u8>,
    pub(super) relative: Vec<u8>,
    /// None for a directory that stays.
    pub(super) parent: Option<Parent>,
    /// Its listing.
    pub(super) handle: Option<Handle>,
    pub(super) entries: Vec<Entry>,
    pub(super) contents: Contents,
    /// Things in it, and answers.
    pub(super) open: u32,
    /// Something in it stays, and so does it.
    pub(super) keeps: bool,
    /// Something in it was deleted.
    pub(super) touched: bool,
    pub(super) times: Option<Times>,
}

impl Removal {
    pub(super) const fn new(path: Vec<u8>, relative: Vec<u8>, parent: Option<Parent>) -> Self {
        Self {
            path,
            relative,
            parent,
            handle: None,
            entries: Vec::new(),
            contents: Contents::Unknown,
            open: 0,
            keeps: false,
            touched: false,
            times: None,
        }
    }
}
