//! What the target has in a directory, until it is compared with the source.

use crate::end::{Entry, Handle};

/// Entries of both ends.
#[derive(Debug, Default)]
pub(crate) struct Comparing {
    pub(crate) source: Vec<Entry>,
    pub(crate) target: Vec<Entry>,
}

impl Comparing {
    pub(crate) fn len(&self) -> usize {
        self.source.len() + self.target.len()
    }
}

/// How far the target's listing is.
#[derive(Debug, Default)]
pub(crate) struct TargetList {
    pub(crate) state: ListState,
    pub(crate) handle: Option<Handle>,
    pub(crate) in_flight: u32,
    pub(crate) allowed: u32,
    /// How often it was begun again.
    pub(crate) round: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ListState {
    #[default]
    NotBegun,
    Open,
    /// Everything is known.
    Whole,
    /// It cannot be listed: each name has to be looked at.
    Failed,
}
