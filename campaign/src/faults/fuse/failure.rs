//! The failures that the file system can simulate, and a limit that its modules share.

use rustix::io::Errno;

/// The longest write that the kernel may send.
pub(super) const LONGEST_WRITE: u32 = 128 << 10;

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Writes fail after this many further bytes have been written.
    Writing(Errno, u64),
    /// All changes fail after this many further bytes have been written.
    Changing(Errno, u64),
    /// Reads of the second half of a file fail, for one file in every group of this size, starting with the
    /// first.
    Reading(Errno, u64),
}
