//! Data ranges of a sparse file, and the holes that were skipped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, RwLock};

/// Held for writing while a sparse file is made longer, and for reading while bytes are written to it: it
/// must not be cut to a length that another thread has just written behind.
pub(crate) type Growth = Arc<RwLock<()>>;

/// Holes of a file, as far as known.
#[derive(Debug)]
pub(crate) struct Holes {
    /// Data ranges from the next request on; `None`: everywhere.
    pub(crate) data: Option<VecDeque<(u64, u64)>>,
    /// Relay: those that were passed over and that writing has not come to, from start to end.
    pub(crate) passed: BTreeMap<u64, u64>,
    /// From here on the target holds nothing.
    pub(crate) blank_from: u64,
    /// Something was left out.
    pub(crate) left_out: bool,
    /// Guards the length of the copy while zeros are left out.
    pub(crate) growth: Growth,
}

impl Default for Holes {
    fn default() -> Self {
        Self {
            data: None,
            passed: BTreeMap::new(),
            blank_from: u64::MAX,
            left_out: false,
            growth: Growth::default(),
        }
    }
}
