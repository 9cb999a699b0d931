//! Small files that are written in one go, with all that is to be kept of them.

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
    /// Kinds (bits of [`crate::extended_attrs`]), and what of these it is to have.
    pub xattrs: Option<(u32, &'a Xattrs)>,
    /// Permissions and times that are set in the end. With [`Whole::ids`] bits that lend rights are left out where the owner
    /// could not be given.
    pub attrs: Attrs,
}

/// A failure, and where it was.
pub type Failure = (PutStep, io::Error);

/// What became of it.
#[derive(Debug)]
pub struct Filled {
    /// Bytes that were written.
    pub written: usize,
    /// Owner or attributes that could not be kept: no failures.
    pub lacks: Vec<Failure>,
    /// Whether it is complete. [`io::ErrorKind::InvalidData`]: what was read back is something else.
    pub outcome: Result<(), Failure>,
}

/// What became of a file that was to appear whole under a name that nothing has.
#[derive(Debug)]
pub enum Made {
    /// It has been dealt with; without a failure it is there.
    Filled(Filled),
    /// Something is there already: nothing has changed.
    Exists,
    /// There are no files without a name here: nothing has changed.
    Unsupported,
    /// It could not be opened: nothing has changed.
    Refused,
}

/// What extended attributes of `xattrs` a file is to have, where any are spoken of.
pub(crate) fn kinds_of(flags: u32, xattrs: &Xattrs) -> Option<(u32, &Xattrs)> {
    Some(batched_extended_attrs::put_kinds(flags)).filter(|&kinds| kinds != 0).map(|kinds| (kinds, xattrs))
}
