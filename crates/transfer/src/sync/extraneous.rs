//! Entries of the target that the source does not have.

use crate::end::{Entry, Kind, Times};
use crate::names::{display_name, is_safe_name, join};
use crate::select::Selection;
use crate::task::place::is_part_name;

/// Entries of a target directory that the source does not have.
#[derive(Debug)]
pub(crate) struct Extraneous {
    /// The directory, its path from the top of the tree, and its times.
    pub(crate) directory: Vec<u8>,
    pub(crate) relative: Vec<u8>,
    pub(crate) times: Option<Times>,
    pub(crate) entries: Vec<Entry>,
}

/// Returns true where an entry that the source does not have is neither left out on purpose nor the
/// unfinished file of a copy. `relative` is the path of its directory from the top of the tree.
pub(crate) fn is_deletable(select: &Selection, relative: &[u8], entry: &Entry) -> bool {
    let path = join(relative, &entry.name);
    !matches!(&*entry.name, b"." | b"..")
        && is_safe_name(&entry.name)
        && !is_part_name(&entry.name)
        && select.wants(&path, entry.info.kind == Kind::Dir)
}

/// The message where two sources of a command have the same target.
pub(crate) fn same_top(target: &[u8]) -> String {
    let path = display_name(target);
    format!("\"{path}\": --delete needs another place for each of several sources")
}
