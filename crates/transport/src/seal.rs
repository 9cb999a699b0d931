//! Sealing of many queued packets at once.
//!
//! A slab holds packets side by side. [`Pending`] has all inputs of sealing: each packet's range and index,
//! and the keys. No packet depends on another, so the packets of a slab are sealed on their own, together
//! with the part of the slab that holds them. With workers, each slab becomes a separate
//! [`Job`](crate::Job).

use std::ops::Range;
use std::sync::Arc;

use lh_crypto::{CryptoError, PacketIndex, PacketKey};

/// A packet laid out in a slab, not sealed yet.
#[derive(Debug)]
pub(crate) struct PacketMeta {
    /// From the length field to the end of the tag, as offsets into the slab.
    pub(crate) range: Range<usize>,
    /// Index in the packet stream under its key.
    pub(crate) index: PacketIndex,
}

/// Packets of a slab that wait to be sealed, in order, with their keys.
#[derive(Default)]
pub(crate) struct Pending {
    packets: Vec<PacketMeta>,
    /// Keys, each with the number of packets up to the last one that is sealed with it. More than one where a
    /// slab begins with packets of the previous keys.
    keys: Vec<(Arc<PacketKey>, usize)>,
}

impl Pending {
    /// Appends a packet.
    pub(crate) fn push(&mut self, packet: PacketMeta, key: &Arc<PacketKey>) {
        self.packets.push(packet);
        match self.keys.last_mut() {
            Some((last, end)) if Arc::ptr_eq(last, key) => *end += 1,
            _ => self.keys.push((Arc::clone(key), self.packets.len())),
        }
    }

    /// Removes all packets, but keeps the memory of the lists.
    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.keys.clear();
    }

    /// Returns true when a packet's suite must seal in order.
    pub(crate) fn is_serial(&self) -> bool {
        self.keys.iter().any(|(key, _)| key.is_serial())
    }

    /// Returns the number of bytes to seal.
    pub(crate) fn len(&self) -> usize {
        let first = self.packets.first().map_or(0, |packet| packet.range.start);
        self.packets.last().map_or(0, |packet| packet.range.end.saturating_sub(first))
    }

    /// Seals the packets in place. `base` is the offset of `bytes` in the slab.
    ///
    /// # Errors
    /// A packet does not lie within `bytes`, or its key refuses it. No packet of the batch may then be sent.
    pub(crate) fn seal(&self, bytes: &mut [u8], base: usize) -> Result<(), CryptoError> {
        let mut sealed = 0;
        for (key, end) in &self.keys {
            for packet in self.packets.get(sealed..*end).unwrap_or_default() {
                let start = packet.range.start.wrapping_sub(base);
                let end = packet.range.end.wrapping_sub(base);
                let bytes = bytes.get_mut(start..end).ok_or(CryptoError::WrongLength { what: "packet" })?;
                key.seal(&packet.index, bytes)?;
            }
            sealed = *end;
        }
        Ok(())
    }
}
