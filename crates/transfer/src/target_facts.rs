//! What was learnt of the target's end while copying.

use lh_sftp::LocalFs;

use crate::table::Key;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct TargetFacts {
    pub(crate) habits: Habits,
    /// What was told not to be kept.
    pub(crate) lacks: Vec<Lack>,
    /// The ends have been asked to tell more.
    pub(crate) asked_for_more: bool,
    /// The target's server permits no rename: every file is written under its final name.
    pub(crate) renames_barred: bool,
    pub(crate) us: Us,
    /// That a server gives one handle to two files has been told.
    pub(crate) told_same_handle: bool,
}

/// What has been learnt of the place where small files are written to.
#[derive(Debug)]
pub(crate) struct Habits {
    /// Files cannot be without a name there.
    pub(crate) named: bool,
    /// The last file replaced another: so will the next, perhaps.
    pub(crate) replacing: bool,
    /// This host.
    pub(crate) fs: LocalFs,
}

impl Default for Habits {
    fn default() -> Self {
        Self { named: false, replacing: false, fs: LocalFs::new("") }
    }
}

/// The number of the user as whom the target's server works.
#[derive(Debug, Default)]
pub(crate) enum Us {
    #[default]
    Unknown,
    /// It is being asked by the file of this name; these wait.
    Asked(Vec<u8>, Vec<Key>),
    Known(Option<u32>),
}

/// What an end was found not to keep; each is told once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    Owner,
    Xattrs,
    HardLinks,
    ManyNames,
    Told,
}
