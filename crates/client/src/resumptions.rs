//! Counts how often a session got another link, for the connections that have joined it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of times that a session was resumed. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Resumptions(Arc<AtomicU64>);

impl Resumptions {
    /// Records a resumption.
    pub(crate) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of resumptions so far.
    pub(crate) fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
