//! Sealing many queued packets at once.
//!
//! A slab holds packets side by side, and each packet's [`PacketMeta`] says all that sealing it takes: its place,
//! its index and its key. No packet depends on another, so [`seal_batch`] may be given any run of neighbouring
//! packets together with the part of the slab that holds them. With workers, each slab is a piece of its own
//! ([`Job`](crate::Job)).

use std::ops::Range;
use std::sync::Arc;

use lh_crypto::{CryptoError, PacketIndex, PacketKey};

/// One packet in a slab, laid out and waiting to be sealed.
pub(crate) struct PacketMeta {
    /// Length field to tag, as positions in the slab.
    pub(crate) range: Range<usize>,
    /// Where it stands in the stream of packets under its key.
    pub(crate) index: PacketIndex,
    /// The key it was queued under. Packets of two epochs may be neighbours.
    pub(crate) key: Arc<PacketKey>,
}

/// Seals `packets` in place. `base` is the position in the slab at which `bytes` starts.
///
/// # Errors
/// A packet does not lie within `bytes` or its key refuses it. Nothing of the batch may be sent then.
pub(crate) fn seal_batch(bytes: &mut [u8], base: usize, packets: &[PacketMeta]) -> Result<(), CryptoError> {
    for packet in packets {
        let start = packet.range.start.wrapping_sub(base);
        let end = packet.range.end.wrapping_sub(base);
        let bytes = bytes.get_mut(start..end).ok_or(CryptoError::WrongLength { what: "packet" })?;
        packet.key.seal(&packet.index, bytes)?;
    }
    Ok(())
}
