//! State of a copy that copies only differences ([`crate::TreeSync`]).

pub(crate) mod backup;
pub(crate) mod comparisons;
pub(crate) mod deletions;
pub(crate) mod extraneous;
pub(crate) mod listings;
pub(crate) mod same;
pub(crate) mod terms;
pub(crate) mod verdict;

use crate::Options;
use crate::sync::backup::Backups;
use crate::sync::comparisons::Comparisons;
use crate::sync::deletions::Deletions;
use crate::sync::verdict::CompareRules;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct SyncState {
    pub(crate) comparisons: Comparisons,
    pub(crate) backups: Backups,
    pub(crate) deletions: Deletions,
}

impl SyncState {
    pub(crate) fn new(options: &Options) -> Self {
        let sync = options.tree_sync.as_ref();
        Self {
            comparisons: Comparisons::new(CompareRules::new(options)),
            backups: Backups::new(sync.and_then(|sync| sync.backup_dir.clone())),
            deletions: Deletions::new(sync, options.dry_run),
        }
    }

    /// Returns true when nothing is being compared, and nothing left to be deleted.
    pub(crate) fn is_finished(&self) -> bool {
        self.comparisons.is_empty() && self.deletions.are_finished()
    }
}
