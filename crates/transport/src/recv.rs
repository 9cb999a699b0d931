//! The receiving half of the packet layer: packets are opened in place, and payloads are slices of the
//! [receive buffer](ReceiveBuffer).
//!
//! With workers, packets that arrived together are cut off in pieces of many ([`Ahead`]), which worker
//! threads open. The receiver then has two positions: the end of the cut packets and the end of the delivered
//! packets. It cuts ahead only while no packet can change the keys. NEWKEYS cannot arrive before we have
//! answered the peer's KEXINIT, because we never send a guessed key exchange packet. So all packets that have
//! arrived when a KEXINIT is found are under the old keys.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use lh_crypto::PacketKey;

use crate::TransportError;
use crate::epoch::Position;
use crate::job::{Framed, Job, OpenWork, Work};
use crate::receive_buffer::ReceiveBuffer;

/// Minimum length of a packet that counts as part of a bulk stream, bytes.
const TYPICAL_MIN: usize = 16 * 1024;

/// Size at which packets are cut off for a worker, bytes.
const PIECE: usize = 128 * 1024;

/// Smaller amounts are opened immediately, because the user may be waiting for them, bytes.
const PIECE_MIN: usize = 48 * 1024;

/// Smallest `packet_length`: padding length and 4 bytes of padding. (An empty payload is checked separately.)
const MIN_LENGTH: u32 = 5;

/// Smallest `packet_length` of packets without padding: padding length and message number.
const MIN_BARE: u32 = 2;

/// An opened packet.
pub(crate) struct Packet {
    pub(crate) seq: u32,
    pub(crate) payload: Bytes,
}

/// Packets that were cut off before the packets in front of them were delivered.
enum Ahead {
    /// The packets are with a job.
    Out { id: u64, bytes: usize },
    /// The job is finished.
    Back { data: Bytes, packets: Vec<Framed>, next: usize, opened: usize },
    /// The bytes at this position are not a valid packet.
    Broken(TransportError),
}

/// State of a connection that has failed but must not show the failure to the peer yet: see
/// [`PacketKey::conceals_errors`].
struct Swallow {
    /// Bytes still to be received.
    left: usize,
    /// Bytes whose MAC was not computed.
    not_hashed: usize,
}

/// The receiving half of the packet layer.
pub(crate) struct Receiver {
    key: Arc<PacketKey>,
    /// Position of the next packet to deliver.
    position: Position,
    /// Position of the next packet to cut off; equal to `position` while nothing is ahead.
    framed: Position,
    ahead: VecDeque<Ahead>,
    /// Worker threads open bulk data.
    workers: bool,
    /// Packets have no padding.
    bare: bool,
    next_job: u64,
    /// Bytes have arrived since the last attempt to cut pieces.
    fresh: bool,
    /// Total size of the last packet, bytes.
    last_total: usize,
    /// Packet lists of delivered pieces, kept for reuse.
    lists: Vec<Vec<Framed>>,
    max_packet: u32,
    swallow: Option<Swallow>,
    buffer: ReceiveBuffer,
    /// Total size of the first packet, tag included, once its length is known.
    expected: Option<usize>,
}

impl Receiver {
    pub(crate) fn new(max_packet: u32) -> Self {
        Self {
            key: Arc::new(PacketKey::plain()),
            position: Position::default(),
            framed: Position::default(),
            ahead: VecDeque::new(),
            workers: false,
            bare: false,
            next_job: 0,
            fresh: false,
            last_total: 0,
            lists: Vec::new(),
            max_packet,
            swallow: None,
            buffer: ReceiveBuffer::default(),
            expected: None,
        }
    }

    /// Switches to packets without padding.
    pub(crate) const fn set_bare(&mut self) {
        self.bare = true;
    }

    /// Returns the buffer for the next read.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let typical = if self.last_total >= TYPICAL_MIN { self.last_total } else { 0 };
        if self.buffer.is_idle() {
            self.last_total = 0;
        }
        self.buffer.space(self.expected, typical)
    }

    /// Records that `n` bytes were read into [`space`](Self::space).
    pub(crate) fn received(&mut self, n: usize) {
        self.buffer.received(n);
        self.fresh = true;
    }

    /// Returns the bytes that were received but not handled.
    pub(crate) fn unread(&self) -> &[u8] {
        self.buffer.unread()
    }

    /// Restores the received bytes of a frozen connection.
    pub(crate) fn restore(&mut self, bytes: &[u8]) {
        self.buffer.restore(bytes);
    }

    /// Removes `n` bytes from the front.
    pub(crate) fn take(&mut self, n: usize) -> BytesMut {
        self.buffer.take(n)
    }

    /// Sets whether bulk data becomes jobs.
    pub(crate) const fn set_workers(&mut self, workers: bool) {
        self.workers = workers;
    }

    /// Returns the next complete packet, opened. Returns `None` also while a job has it.
    pub(crate) fn next(&mut self) -> Result<Option<Packet>, TransportError> {
        if self.swallow.is_some() {
            return self.swallow();
        }
        while let Some(ahead) = self.ahead.front_mut() {
            match ahead {
                Ahead::Out { .. } => return Ok(None),
                Ahead::Broken(error) => return Err(error.clone()),
                Ahead::Back { data, packets, next, opened } => {
                    if let Some(framed) = packets.get(*next) {
                        if *next >= *opened {
                            return Err(TransportError::BadMac);
                        }
                        *next += 1;
                        let without_tag = framed.range.len() - self.key.tag_len();
                        let index = self.position.take(&self.key, without_tag);
                        return strip(data.slice(framed.range.clone()), index.seq, without_tag).map(Some);
                    }
                    if let Some(Ahead::Back { mut packets, .. }) = self.ahead.pop_front() {
                        packets.clear();
                        self.lists.push(packets);
                    }
                }
            }
        }
        let total = match self.total() {
            Err(TransportError::PacketLength { .. }) if self.key.conceals_errors() => {
                return self.conceal(0);
            }
            total => total?,
        };
        let Some(total) = total else { return Ok(None) };
        if self.buffer.filled() < total {
            return Ok(None);
        }
        self.expected = None;
        let mut packet = self.take(total);
        let without_tag = total - self.key.tag_len();
        let index = self.framed.take(&self.key, without_tag);
        self.position = self.framed;
        if self.key.open(&index, &mut packet).is_err() {
            return if self.key.conceals_errors() {
                self.conceal(total)
            } else {
                Err(TransportError::BadMac)
            };
        }
        if self.bare {
            return bare(packet.freeze(), index.seq).map(Some);
        }
        strip(packet.freeze(), index.seq, without_tag).map(Some)
    }

    /// Starts to conceal that a packet is wrong. `seen` is the number of its bytes that were taken and whose
    /// MAC was computed.
    fn conceal(&mut self, seen: usize) -> Result<Option<Packet>, TransportError> {
        let most = self.max_packet as usize;
        let left = most.saturating_sub(seen);
        self.swallow = Some(Swallow { left, not_hashed: left });
        self.swallow()
    }

    /// Discards input. Once it amounts to the largest packet, reports a wrong tag.
    fn swallow(&mut self) -> Result<Option<Packet>, TransportError> {
        let Some(swallow) = &mut self.swallow else { return Ok(None) };
        let taken = swallow.left.min(self.buffer.filled());
        swallow.left -= taken;
        let (left, not_hashed) = (swallow.left, swallow.not_hashed);
        self.take(taken);
        if left > 0 {
            return Ok(None);
        }
        self.key.waste_time(not_hashed);
        Err(TransportError::BadMac)
    }

    /// Returns the total size of the first packet that is not cut off, once its length has arrived.
    fn total(&mut self) -> Result<Option<usize>, TransportError> {
        if self.expected.is_none() {
            let Some(head) = self.unread().get(..self.key.head_len()) else { return Ok(None) };
            let length = self.key.packet_length(&self.framed.index, head);
            self.check_length(length)?;
            // Cached, so that an encrypted length is decrypted only once.
            let total = 4 + length as usize + self.key.tag_len();
            self.expected = Some(total);
            self.last_total = total;
        }
        Ok(self.expected)
    }

    /// Cuts packets that have arrived into pieces for workers. Call only while no packet can change the keys.
    pub(crate) fn cut(&mut self, authenticated: bool, jobs: &mut VecDeque<Job>) {
        let after_broken = matches!(self.ahead.back(), Some(Ahead::Broken(_)));
        // Too few packets for a piece are opened one by one, unless they follow pieces.
        if !self.workers
            || self.key.is_serial()
            || !self.fresh
            || after_broken
            || self.buffer.filled() < PIECE_MIN
        {
            return;
        }
        // Prevents scanning the same small packets again for each of them.
        self.fresh = false;
        let mut packets = self.lists.pop().unwrap_or_default();
        let mut end = 0;
        let mut position = self.framed;
        loop {
            // The serial path detects the limit again, in order, when all earlier packets are delivered.
            if position.exhausted(&self.key, authenticated) {
                break;
            }
            let Some(head) = self.unread().get(end..end + self.key.head_len()) else { break };
            let length = self.key.packet_length(&position.index, head);
            if let Err(error) = self.check_length(length) {
                self.cut_off(&mut packets, &mut end, position, jobs);
                if self.ahead.is_empty() {
                    // Nothing is ahead, so the next call of `next` finds the error.
                    self.lists.push(packets);
                } else {
                    self.ahead.push_back(Ahead::Broken(error));
                }
                return;
            }
            let total = 4 + length as usize + self.key.tag_len();
            if end + total > self.buffer.filled() {
                break;
            }
            let index = position.take(&self.key, total - self.key.tag_len());
            packets.push(Framed { range: end..end + total, index });
            end += total;
            if end >= PIECE {
                self.cut_off(&mut packets, &mut end, position, jobs);
            }
        }
        if end >= PIECE_MIN {
            self.cut_off(&mut packets, &mut end, position, jobs);
        }
        packets.clear();
        self.lists.push(packets);
        // Determines how many bytes are missing. `next` reports an error again.
        let _ = self.total();
    }

    /// Turns `packets`, which occupy the first `end` bytes, into a job.
    fn cut_off(
        &mut self,
        packets: &mut Vec<Framed>,
        end: &mut usize,
        position: Position,
        jobs: &mut VecDeque<Job>,
    ) {
        if packets.is_empty() {
            return;
        }
        let bytes = std::mem::take(end);
        let packets = std::mem::replace(packets, self.lists.pop().unwrap_or_default());
        let id = self.next_job;
        self.next_job += 1;
        self.framed = position;
        self.expected = None;
        let work = OpenWork { data: self.take(bytes), packets, key: Arc::clone(&self.key), opened: 0 };
        self.ahead.push_back(Ahead::Out { id, bytes });
        jobs.push_back(Job { id, work: Work::Open(work) });
    }

    /// Stores an opened piece.
    pub(crate) fn opened(&mut self, id: u64, work: OpenWork) {
        let place =
            self.ahead.iter_mut().find(|ahead| matches!(ahead, Ahead::Out { id: other, .. } if *other == id));
        if let Some(place) = place {
            let OpenWork { data, packets, opened, .. } = work;
            *place = Ahead::Back { data: data.freeze(), packets, next: 0, opened };
        }
    }

    /// Returns true when the next packet is with a worker.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.ahead.front(), Some(Ahead::Out { .. }))
    }

    /// Returns the number of bytes that were cut off but not delivered.
    pub(crate) fn ahead(&self) -> usize {
        let bytes = |ahead: &Ahead| match ahead {
            Ahead::Out { bytes, .. } => *bytes,
            Ahead::Back { data, packets, next, .. } => {
                data.len() - packets.get(*next).map_or(data.len(), |framed| framed.range.start)
            }
            Ahead::Broken(_) => 0,
        };
        self.ahead.iter().map(bytes).sum()
    }

    /// Checks a packet length. As in OpenSSH, an invalid length ends the connection immediately. The failure
    /// tells an attacker who changed the length field nothing new, and our answer does not contain the value.
    /// With CBC it would reveal something, see [`conceal`](Self::conceal).
    fn check_length(&self, length: u32) -> Result<(), TransportError> {
        if self.bare {
            let sound = (MIN_BARE..=self.max_packet).contains(&length);
            return if sound { Ok(()) } else { Err(TransportError::PacketLength { length }) };
        }
        let counted = u64::from(length) + if self.key.length_is_padded() { 4 } else { 0 };
        let block = self.key.block_len().max(8) as u64;
        if length < MIN_LENGTH || length > self.max_packet || counted % block != 0 {
            return Err(TransportError::PacketLength { length });
        }
        Ok(())
    }

    /// Uses these keys for packets from now on.
    ///
    /// # Errors
    /// Packets under the old keys follow NEWKEYS. Only a malicious peer can have sent them, so they fail like
    /// packets under wrong keys.
    pub(crate) fn new_keys(&mut self, key: PacketKey, strict: bool) -> Result<(), TransportError> {
        if self.framed != self.position || matches!(self.ahead.back(), Some(Ahead::Broken(_))) {
            return Err(TransportError::BadMac);
        }
        self.key = Arc::new(key);
        self.position.new_keys(strict);
        self.framed = self.position;
        self.expected = None;
        Ok(())
    }

    /// Returns the number of used slabs that are kept.
    #[cfg(test)]
    pub(crate) fn retired(&self) -> usize {
        self.buffer.retired()
    }

    /// Returns the memory held for receiving, bytes.
    #[cfg(test)]
    pub(crate) fn footprint(&self) -> usize {
        self.buffer.footprint()
    }

    pub(crate) fn key(&self) -> &PacketKey {
        &self.key
    }

    pub(crate) fn position(&self) -> Position {
        self.position
    }

    pub(crate) fn set_position(&mut self, position: Position) {
        self.position = position;
        self.framed = position;
    }
}

/// Extracts the payload of a packet without padding.
fn bare(packet: Bytes, seq: u32) -> Result<Packet, TransportError> {
    match packet.get(4) {
        Some(0) => Ok(Packet { seq, payload: packet.slice(5..) }),
        padding => Err(TransportError::Padding(padding.copied().unwrap_or_default())),
    }
}

/// Extracts the payload of an opened packet.
fn strip(packet: Bytes, seq: u32, without_tag: usize) -> Result<Packet, TransportError> {
    let padding = packet.get(4).copied().unwrap_or_default();
    let end = without_tag
        .checked_sub(usize::from(padding))
        .filter(|&end| end >= 5 && padding >= 4)
        .ok_or(TransportError::Padding(padding))?;
    if end == 5 {
        return Err(TransportError::EmptyPacket);
    }
    Ok(Packet { seq, payload: packet.slice(5..end) })
}
