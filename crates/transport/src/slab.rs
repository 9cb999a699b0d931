//! Memory of the send queue: a slab holds packets from their layout until they are written.

use crate::seal::Pending;

/// Small slab size, bytes: enough for a whole handshake or a screenful of text.
pub(crate) const SMALL_SLAB: usize = 32 * 1024;

/// Large slab size, bytes: a producer's share of a turn (256 KiB) plus the packet headers. Several fit one
/// write, a few stay in a second-level cache, and one is enough work for a worker.
pub(crate) const LARGE_SLAB: usize = 288 * 1024;

/// Memory behind the last slab's packets that is reserved for a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reserved {
    /// Length of the payload, bytes.
    pub(crate) size: usize,
    /// Length of the packet with its tag, bytes.
    pub(crate) span: usize,
}

/// Packets that are laid out one behind the other, some of them sealed and written.
pub(crate) struct Slab {
    /// Number of the slab, in order of use.
    pub(crate) number: u64,
    pub(crate) data: Box<[u8]>,
    /// End of the packets that are laid out.
    pub(crate) filled: usize,
    /// End of the bytes that may be written: sealed packets and raw bytes.
    pub(crate) ready: usize,
    /// End of the bytes that have been written.
    pub(crate) written: usize,
    /// Packets between `ready` and `filled`.
    pub(crate) pending: Pending,
    /// The job that currently owns the bytes.
    pub(crate) job: Option<u64>,
    /// Number of the last message whose packet is in this slab and may have to be sent again.
    pub(crate) last: Option<u64>,
}

impl Slab {
    /// Returns an empty slab over this memory.
    pub(crate) fn new(number: u64, data: Box<[u8]>) -> Self {
        let pending = Pending::default();
        Self { number, data, filled: 0, ready: 0, written: 0, pending, job: None, last: None }
    }

    /// Returns the number of bytes behind the packets.
    pub(crate) fn free(&self) -> usize {
        self.data.len().saturating_sub(self.filled)
    }
}
