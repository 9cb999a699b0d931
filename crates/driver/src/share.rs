//! Limits of the data that a channel produces in a turn of the loop.

/// Upper limit of one read from a file or pipe, bytes. Larger reads are no cheaper per byte.
pub(crate) const MOST_PER_READ: usize = 256 << 10;

/// Bytes that one channel may produce in a turn before other channels get theirs: two large reads with their
/// protocol headers. Each turn costs a poll of all descriptors and usually a wake-up of the peer, so a share
/// should be large. It must also fit a core's second-level cache, because the bytes are read, sealed and
/// written in that order.
pub(crate) const SHARE_PER_TURN: usize = 2 * MOST_PER_READ + (8 << 10);
