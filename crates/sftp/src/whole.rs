//! Small files that are written at once, with all their attributes.

use std::io;

use crate::batch::PutStep;
use crate::extended_attrs::Xattrs;
use crate::{Attrs, batched_extended_attrs};

/// A whole file to be written.
#[derive(Debug, Clone, Copy)]
pub struct Whole<'a> {
    /// Path of the file.
    pub path: &'a [u8],
    /// Content of the file.
    pub data: &'a [u8],
    /// Permissions for making the file, restricted by the umask.
    pub made_with: u32,
    /// Whether to read the written data back and compare them.
    pub compared: bool,
    /// Owner and group to set. `u32::MAX` leaves the existing value.
    pub ids: Option<(u32, u32)>,
    /// Kinds of extended attributes to set (bits of [`crate::extended_attrs`]), and all attributes of these
    /// kinds.
    pub xattrs: Option<(u32, &'a Xattrs)>,
    /// Permissions and times to set last. If [`Whole::ids`] could not be set, set-user-ID and set-group-ID
    /// bits are left out.
    pub attrs: Attrs,
}

/// A failed step and its error.
pub type Failure = (PutStep, io::Error);

/// Result of writing a file.
#[derive(Debug)]
pub struct Filled {
    /// Number of bytes written.
    pub written: usize,
    /// Owner or attributes that could not be set. They do not count as failures.
    pub not_kept: Vec<Failure>,
    /// Whether the file is complete. [`io::ErrorKind::InvalidData`]: the data read back differ from the
    /// written data.
    pub outcome: Result<(), Failure>,
}

/// Result of making a file that appears complete under a free name.
#[derive(Debug)]
pub enum Made {
    /// The file was written. It has its name if there was no failure.
    Filled(Filled),
    /// The name exists: nothing has changed.
    Exists,
    /// The file system cannot make files without names: nothing has changed.
    Unsupported,
    /// The file could not be made: nothing has changed.
    Refused,
}

/// Returns the kinds of extended attributes that `flags` select, and the attributes; `None` if `flags` select
/// no kind.
pub(crate) fn kinds_of(flags: u32, xattrs: &Xattrs) -> Option<(u32, &Xattrs)> {
    Some(batched_extended_attrs::put_kinds(flags)).filter(|&kinds| kinds != 0).map(|kinds| (kinds, xattrs))
}
