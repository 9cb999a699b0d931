//! The sums over a file's bytes: over its content, and those that both ends compare.

use lh_sftp::RunningSum;

use crate::task::content::Content;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Over its content, for [`crate::Reporting::sums`].
    pub(crate) content: Content,
    /// Over what was copied, while both ends sum up.
    pub(crate) ours: Option<RunningSum>,
    /// Sum of the server over handles that are closed.
    pub(crate) theirs: RunningSum,
    /// Both ends summed up, and a part of that is lost.
    pub(crate) lost: bool,
}

impl Sums {
    /// The two ends cannot be compared by what they have summed up.
    pub(crate) fn lose(&mut self) {
        self.lost |= self.ours.take().is_some();
    }
}
