//! Sealing of many queued packets at once.
//!
//! A slab holds packets side by side. Each packet's [`PacketMeta`] contains all inputs of sealing: its range,
//! its index and its key. No packet depends on another, so [`seal_batch`] accepts any run of neighbouring
//! packets together with the part of the slab that holds them. With workers, each slab becomes a separate
//! [`Job`](crate::Job).

use std::ops::Range;
use std::sync::Arc;

use lh_crypto::{CryptoError, PacketIndex, PacketKey};

/// A packet laid out in a slab, not sealed yet.
pub(crate) struct PacketMeta {
    /// From the length field to the end of the tag, as offsets into the slab.
    pub(crate) range: Range<usize>,
    /// Index in the packet stream under its key.
    pub(crate) index: PacketIndex,
    /// The key under which the packet was queued. Neighbouring packets may belong to two key epochs.
    pub(crate) key: Arc<PacketKey>,
}

/// Seals `packets` in place. `base` is the offset of `bytes` in the slab.
///
/// # Errors
/// A packet does not lie within `bytes`, or its key refuses it. No packet of the batch may then be sent.
pub(crate) fn seal_batch(bytes: &mut [u8], base: usize, packets: &[PacketMeta]) -> Result<(), CryptoError> {
    for packet in packets {
        let start = packet.range.start.wrapping_sub(base);
        let end = packet.range.end.wrapping_sub(base);
        let bytes = bytes.get_mut(start..end).ok_or(CryptoError::WrongLength { what: "packet" })?;
        packet.key.seal(&packet.index, bytes)?;
    }
    Ok(())
}
