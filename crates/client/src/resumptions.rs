//! What the resumptions of a session mean for others: the connections that have joined it, and the program at
//! its terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Number of times that a session was resumed, and whether the terminal has shown that it was away. Clones
/// share both.
#[derive(Debug, Clone, Default)]
pub struct Resumptions {
    count: Arc<AtomicU64>,
    is_overwritten: Arc<AtomicBool>,
}

impl Resumptions {
    /// Records a resumption.
    pub(crate) fn count(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of resumptions so far.
    pub(crate) fn so_far(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Records that a line was written over what the session has on the terminal.
    pub(crate) fn set_overwritten(&self) {
        self.is_overwritten.store(true, Ordering::Relaxed);
    }

    /// Returns, once, whether the line that tells of a break has been removed, and with it what the session
    /// had there.
    pub fn take_overwritten(&self) -> bool {
        self.is_overwritten.swap(false, Ordering::Relaxed)
    }
}
