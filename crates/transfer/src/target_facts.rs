//! What was learnt of the target's end while copying.

use lh_sftp_fs::LocalFs;

use crate::table::Key;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct TargetFacts {
    pub(crate) small_files: SmallFiles,
    /// What was reported not to be kept.
    pub(crate) not_kept: Vec<NotKept>,
    /// The ends have been asked for more than version 3 has.
    pub(crate) asked_for_more: bool,
    /// The target's server permits no rename: every file is written under its final name.
    pub(crate) renames_barred: bool,
    pub(crate) us: Us,
    /// It was reported that a server gives one handle to two files.
    pub(crate) reported_same_handle: bool,
}

/// What is known of the directory that small files are written to.
#[derive(Debug)]
pub(crate) struct SmallFiles {
    /// Files cannot be without a name there.
    pub(crate) named: bool,
    /// The last file replaced another: so will the next, perhaps.
    pub(crate) replacing: bool,
    /// This host.
    pub(crate) fs: LocalFs,
}

impl Default for SmallFiles {
    fn default() -> Self {
        Self { named: false, replacing: false, fs: LocalFs::new("") }
    }
}

/// The id of the user that the target's server runs as.
#[derive(Debug, Default)]
pub(crate) enum Us {
    #[default]
    Unknown,
    /// It is being asked by the file of this name; these wait.
    Asked(Vec<u8>, Vec<Key>),
    Known(Option<u32>),
}

/// What an end does not keep; each is reported once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotKept {
    Owner,
    Xattrs,
    HardLinks,
    ManyNames,
    HardLinksUnknown,
}
