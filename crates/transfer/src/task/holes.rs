//! Where the data of a sparse file are, and which holes were passed over.

use std::collections::{BTreeMap, VecDeque};

/// What is known of a file's holes.
#[derive(Debug)]
pub(crate) struct Holes {
    /// Where data are, from the next request on; `None`: everywhere.
    pub(crate) data: Option<VecDeque<(u64, u64)>>,
    pub(crate) asked: bool,
    /// Relay: those that were passed over and that writing has not come to, from start to end.
    pub(crate) passed: BTreeMap<u64, u64>,
    /// From here on the target holds nothing.
    pub(crate) blank_from: u64,
    /// Something was left out.
    pub(crate) left_out: bool,
}

impl Default for Holes {
    fn default() -> Self {
        Self { data: None, asked: false, passed: BTreeMap::new(), blank_from: u64::MAX, left_out: false }
    }
}
