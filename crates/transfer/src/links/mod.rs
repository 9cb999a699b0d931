//! Names that are no files of their own: symbolic links, and other names of a file.

pub(crate) mod new_names;
pub(crate) mod shared;

use crate::links::new_names::{Kept, NewNames};
use crate::links::shared::SharedFiles;

/// Names being made, and files whose other names are to come.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) names: NewNames,
    pub(crate) shared: SharedFiles,
}

impl Links {
    /// `most_shared`: files with several names that are remembered at a time.
    pub(crate) fn new(kept: Kept, most_shared: Option<usize>) -> Self {
        Self { names: NewNames::new(kept), shared: SharedFiles::new(most_shared) }
    }
}
