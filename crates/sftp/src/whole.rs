//! Small files that are written at once, with all attributes that are kept.

use std::io;

use crate::batch::PutStep;
use crate::extended_attrs::Xattrs;
use crate::{Attrs, batched_extended_attrs};

/// A whole file to be written.
#[derive(Debug, Clone, Copy)]
pub struct Whole<'a> {
    /// Where.
    pub path: &'a [u8],
    /// All of it.
    pub data: &'a [u8],
    /// The permissions that it is made with, under the umask.
    pub made_with: u32,
    /// What was written is read back and compared.
    pub compared: bool,
    /// Owner and group that it is given; `u32::MAX` leaves what there is.
    pub ids: Option<(u32, u32)>,
    /// Kinds (bits of [`crate::extended_attrs`]) and the attributes of these kinds that it gets.
    pub xattrs: Option<(u32, &'a Xattrs)>,
    /// Permissions and times that are set last. With [`Whole::ids`], set-user-ID and set-group-ID bits are
    /// left out where the owner could not be set.
    pub attrs: Attrs,
}

/// A failed step and its error.
pub type Failure = (PutStep, io::Error);

/// Outcome of writing a file.
#[derive(Debug)]
pub struct Filled {
    /// Bytes that were written.
    pub written: usize,
    /// Owner or attributes that could not be kept: no failures.
    pub not_kept: Vec<Failure>,
    /// Whether it is complete. [`io::ErrorKind::InvalidData`]: what was read back is something else.
    pub outcome: Result<(), Failure>,
}

/// Outcome of making a file that appears complete under a free name.
#[derive(Debug)]
pub enum Made {
    /// It was written; without a failure it has its name.
    Filled(Filled),
    /// The name exists already: nothing has changed.
    Exists,
    /// The file system has no files without names: nothing has changed.
    Unsupported,
    /// It could not be opened: nothing has changed.
    Refused,
}

/// Kinds of extended attributes that `flags` name, with the attributes; `None` where they name none.
pub(crate) fn kinds_of(flags: u32, xattrs: &Xattrs) -> Option<(u32, &Xattrs)> {
    Some(batched_extended_attrs::put_kinds(flags)).filter(|&kinds| kinds != 0).map(|kinds| (kinds, xattrs))
}
