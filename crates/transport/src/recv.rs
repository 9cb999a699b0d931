//! The receive buffer: the socket is read into a slab, packets are opened there, payloads are slices of it.
//!
//! A slab is zeroed once when it is made (safe code cannot lend out uninitialised memory). Packets are split off
//! its front; when it is used up, the next one takes over at most the beginning of one packet. A slab whose
//! payloads have all been dropped is used again, so that steady traffic stays in the same warm memory.

use bytes::{Bytes, BytesMut};
use lh_crypto::PacketKey;

use crate::TransportError;
use crate::epoch::Position;

/// For handshakes, terminals and idle connections.
const SMALL_SLAB: usize = 32 * 1024;

/// For bulk: one `recv` can bring many packets, only one in sixteen is cut by the end of a slab, and slab and
/// packets still stay in a second-level cache.
const LARGE_SLAB: usize = 512 * 1024;

/// A read this long says that more is coming than a small slab is made for.
const BULK_READ: usize = 16 * 1024;

/// After so many short reads in a row a large slab is given up.
const QUIET_READS: u32 = 32;

/// Used slabs kept until their payloads are dropped and they can serve again.
const RETIRED: usize = 3;

/// Not worth a system call below this.
const LEAST_READ: usize = 4 * 1024;

/// Smallest `packet_length`: padding length, 4 bytes of padding. (A payload is checked for separately.)
const MIN_LENGTH: u32 = 5;

/// A packet that was opened.
pub(crate) struct Packet {
    pub(crate) seq: u32,
    pub(crate) payload: Bytes,
}

/// The receiving half of the packet layer.
pub(crate) struct Receiver {
    key: PacketKey,
    position: Position,
    max_packet: u32,
    /// All of it is initialised; the first `filled` bytes came from the socket.
    slab: BytesMut,
    filled: usize,
    /// Total size of the packet at the front, tag included, once its length is known.
    expected: Option<usize>,
    retired: Vec<BytesMut>,
    large: bool,
    quiet: u32,
}

impl Receiver {
    pub(crate) fn new(max_packet: u32) -> Self {
        Self {
            key: PacketKey::plain(),
            position: Position::default(),
            max_packet,
            slab: BytesMut::new(),
            filled: 0,
            expected: None,
            retired: Vec::new(),
            large: false,
            quiet: 0,
        }
    }

    /// Where to read to.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let missing = self.expected.map_or(0, |total| total.saturating_sub(self.filled));
        let free = self.slab.len() - self.filled;
        let shrink = self.quiet >= QUIET_READS && self.slab.len() > SMALL_SLAB && self.filled == 0;
        if free < missing.max(LEAST_READ) || shrink {
            if shrink {
                self.large = false;
            }
            self.renew(missing);
        }
        self.slab.get_mut(self.filled..).unwrap_or_default()
    }

    /// Starts another slab, with room for `missing` bytes behind what is not handled yet.
    fn renew(&mut self, missing: usize) {
        let size = if self.large { LARGE_SLAB } else { SMALL_SLAB };
        let size = size.max(self.filled + missing + LEAST_READ);
        let mut next = self.reclaim(size);
        // Everything is zeroed here, once per slab; `split_to` keeps the rest initialised.
        next.resize(size, 0);
        if let (Some(to), Some(from)) = (next.get_mut(..self.filled), self.slab.get(..self.filled)) {
            to.copy_from_slice(from);
        }
        let mut old = std::mem::replace(&mut self.slab, next);
        old.clear();
        if self.large {
            if self.retired.len() >= RETIRED {
                self.retired.remove(0);
            }
            self.retired.push(old);
        } else {
            self.retired.clear();
        }
    }

    /// A used slab nobody looks at any more, or new memory.
    fn reclaim(&mut self, size: usize) -> BytesMut {
        let free = self.retired.iter_mut().position(|slab| slab.try_reclaim(size));
        match free {
            Some(position) => self.retired.swap_remove(position),
            None => BytesMut::with_capacity(size),
        }
    }

    /// `n` bytes were read into [`space`](Self::space).
    pub(crate) fn received(&mut self, n: usize) {
        self.filled = (self.filled + n).min(self.slab.len());
        if n >= BULK_READ {
            self.large = true;
            self.quiet = 0;
        } else {
            self.quiet = self.quiet.saturating_add(1);
        }
    }

    /// Bytes that were received and not handled.
    pub(crate) fn unread(&self) -> &[u8] {
        self.slab.get(..self.filled).unwrap_or_default()
    }

    /// Puts bytes in front as if they had been received: what was frozen.
    pub(crate) fn restore(&mut self, bytes: &[u8]) {
        self.renew(bytes.len());
        if let Some(place) = self.slab.get_mut(..bytes.len()) {
            place.copy_from_slice(bytes);
            self.filled = bytes.len();
        }
    }

    /// Takes `n` bytes off the front.
    pub(crate) fn take(&mut self, n: usize) -> BytesMut {
        let n = n.min(self.filled);
        self.filled -= n;
        self.slab.split_to(n)
    }

    /// The next complete packet, opened.
    pub(crate) fn next(&mut self) -> Result<Option<Packet>, TransportError> {
        let total = match self.expected {
            Some(total) => total,
            None => {
                let Some(head) = self.unread().get(..self.key.head_len()) else { return Ok(None) };
                let length = self.key.packet_length(&self.position.index, head);
                self.check_length(length)?;
                let total = 4 + length as usize + self.key.tag_len();
                // Kept, so that a length that has to be decrypted is decrypted once.
                self.expected = Some(total);
                total
            }
        };
        if self.filled < total {
            return Ok(None);
        }
        self.expected = None;
        let mut packet = self.take(total);
        let without_tag = total - self.key.tag_len();
        let index = self.position.take(&self.key, without_tag);
        self.key.open(&index, &mut packet).map_err(|_| TransportError::BadMac)?;
        let padding = packet.get(4).copied().unwrap_or_default();
        let end = without_tag
            .checked_sub(usize::from(padding))
            .filter(|&end| end >= 5 && padding >= 4)
            .ok_or(TransportError::Padding(padding))?;
        if end == 5 {
            return Err(TransportError::EmptyPacket);
        }
        Ok(Some(Packet { seq: index.seq, payload: packet.freeze().slice(5..end) }))
    }

    /// A length that cannot be ends the connection at once, as in OpenSSH: with our ciphers (no CBC) a
    /// changed length field tells an attacker nothing that they did not know. What is sent back does not hold the value.
    fn check_length(&self, length: u32) -> Result<(), TransportError> {
        let counted = u64::from(length) + if self.key.length_is_padded() { 4 } else { 0 };
        let block = self.key.block_len().max(8) as u64;
        if length < MIN_LENGTH || length > self.max_packet || counted % block != 0 {
            return Err(TransportError::PacketLength { length });
        }
        Ok(())
    }

    /// Packets from now on use these keys.
    pub(crate) fn new_keys(&mut self, key: PacketKey, strict: bool) {
        self.key = key;
        self.position.new_keys(strict);
    }

    /// Memory held for receiving.
    #[cfg(test)]
    pub(crate) fn footprint(&self) -> usize {
        self.slab.len() + self.retired.iter().map(|slab| slab.capacity()).sum::<usize>()
    }

    pub(crate) fn key(&self) -> &PacketKey {
        &self.key
    }

    pub(crate) fn position(&self) -> Position {
        self.position
    }

    pub(crate) fn set_position(&mut self, position: Position) {
        self.position = position;
    }
}
