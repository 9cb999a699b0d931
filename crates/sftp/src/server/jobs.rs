//! Requests that are served in steps: copies and digests.

use super::digest::Digesting;
use crate::fs::File;

/// A `copy-data` request that is being served.
pub(super) struct CopyJob {
    pub(super) id: u32,
    pub(super) from: Vec<u8>,
    pub(super) offset: u64,
    pub(super) to: Vec<u8>,
    pub(super) to_offset: u64,
    /// Bytes left to copy. `None` copies to the end of the file.
    pub(super) left: Option<u64>,
}

/// The request that is being served in steps, if any.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) copy: Option<CopyJob>,
    pub(super) check: Option<CheckJob>,
}

impl Jobs {
    /// Returns true while a request is being served in steps.
    pub(super) const fn any(&self) -> bool {
        self.copy.is_some() || self.check.is_some()
    }
}

/// The file to digest.
pub(super) enum Checked {
    /// Handle of a file that the client opened.
    Handle(Vec<u8>),
    /// File that the server opened for this request.
    File(Box<dyn File>),
}

/// A `check-file` request that is being served.
pub(super) struct CheckJob {
    pub(super) id: u32,
    pub(super) checked: Checked,
    pub(super) digesting: Digesting,
}
