//! The failures that the file system can show, and a limit that its parts share.

use rustix::io::Errno;

/// The longest write that the kernel may send.
pub(super) const LONGEST_WRITE: u32 = 128 << 10;

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Writing, once this many bytes more have been written.
    Writing(Errno, u64),
    /// Every change, once this many bytes more have been written.
    Changing(Errno, u64),
    /// Reading the second half of every file in this many (the first, the one after so many others, …).
    Reading(Errno, u64),
}
