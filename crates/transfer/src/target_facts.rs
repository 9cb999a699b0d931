//! What was learnt of the target's end while copying.

use lh_sftp::LocalFs;

use crate::table::Key;

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
