//! The receive buffer: the socket is read into a slab, packets are opened there, payloads are slices of it.
//!
//! A slab is zeroed once when it is made (safe code cannot lend out uninitialised memory). Packets are split off
//! its front; when it is used up, the next one takes over at most the beginning of one packet. A slab whose
//! payloads have all been dropped is used again, so that steady traffic stays in the same warm memory.
//!
//! With workers, packets that have arrived together are cut off in pieces of many ([`Ahead`]), which others open. The
//! receiver then has two positions: how far it has cut, and how far it has delivered. Cutting ahead is only done
//! while no packet can change the keys: NEWKEYS cannot come before we have answered the peer's KEXINIT, for we never
//! send a guessed key exchange packet, so everything that has arrived when a KEXINIT is found is under the old keys.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use lh_crypto::PacketKey;

use crate::TransportError;
use crate::epoch::Position;
use crate::job::{Framed, Job, OpenWork, Work};

/// For handshakes, terminals and idle connections.
const SMALL_SLAB: usize = 32 * 1024;

/// For bulk: one `recv` can bring many packets, and only one in sixteen is cut by the end of a slab. (Measured from 256 KiB to
/// 1 MiB: the longer the faster.)
const LARGE_SLAB: usize = 1024 * 1024;

/// A read this long says that more is coming than a small slab is made for.
const BULK_READ: usize = 16 * 1024;

/// After so many short reads in a row a large slab is given up.
const QUIET_READS: u32 = 32;

/// Used slabs kept until their payloads are dropped and they can serve again, while there are always some that can.
pub(crate) const RETIRED: usize = 3;

/// Used slabs kept at most, when whoever takes the payloads is behind: new memory, of which the kernel makes page after page, would
/// cost more than receiving does, just when there is no time.
pub(crate) const RETIRED_BEHIND: usize = 16;

/// So many times in a row another slab than the one that is taken must have been free until it is one too many.
const IDLE_TURNS: u32 = 64;

/// Packets at least this long are those of a stream of bulk.
const TYPICAL_MIN: usize = 16 * 1024;

/// Not worth a system call below this.
const LEAST_READ: usize = 4 * 1024;

/// Packets are cut off for a worker as soon as they are this many bytes together.
const PIECE: usize = 128 * 1024;

/// Less than this is opened on the spot: somebody may be waiting for it.
const PIECE_MIN: usize = 48 * 1024;

/// Smallest `packet_length`: padding length, 4 bytes of padding. (A payload is checked for separately.)
const MIN_LENGTH: u32 = 5;

/// The same of packets without padding: padding length and message number.
const MIN_BARE: u32 = 2;

/// A packet that was opened.
pub(crate) struct Packet {
    pub(crate) seq: u32,
    pub(crate) payload: Bytes,
}

/// Packets that were cut off before those in front of them were delivered.
enum Ahead {
    /// A job has them.
    Out { id: u64, bytes: usize },
    /// The job is over.
    Back { data: Bytes, packets: Vec<Framed>, next: usize, opened: usize },
    /// What stood here was no packet.
    Broken(TransportError),
}

/// A connection that has ended, though the peer does not know yet: see [`PacketKey::conceals_errors`].
struct Swallow {
    /// Bytes that are still to come.
    left: usize,
    /// Bytes whose tag was not computed.
    not_hashed: usize,
}

/// The receiving half of the packet layer.
pub(crate) struct Receiver {
    key: Arc<PacketKey>,
    /// Of the next packet to be delivered.
    position: Position,
    /// Of the next packet to be cut off; the same while nothing is ahead.
    framed: Position,
    ahead: VecDeque<Ahead>,
    /// Bulk is opened by others.
    workers: bool,
    /// Packets have no padding.
    bare: bool,
    next_job: u64,
    /// Bytes have come since it was last looked for pieces.
    fresh: bool,
    /// How long the last packet was.
    last_total: usize,
    /// Lists of pieces that are delivered, to be used again.
    lists: Vec<Vec<Framed>>,
    max_packet: u32,
    swallow: Option<Swallow>,
    /// All of it is initialised; the first `filled` bytes came from the socket.
    slab: BytesMut,
    filled: usize,
    /// Total size of the packet at the front, tag included, once its length is known.
    expected: Option<usize>,
    retired: Vec<BytesMut>,
    /// How often in a row one more could have served.
    idle: u32,
    large: bool,
    quiet: u32,
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
            slab: BytesMut::new(),
            filled: 0,
            expected: None,
            retired: Vec::new(),
            idle: 0,
            large: false,
            quiet: 0,
        }
    }

    /// Packets have no padding from now on.
    pub(crate) const fn set_bare(&mut self) {
        self.bare = true;
    }

    /// Where to read to.
    ///
    /// A stream of bulk has packets of one length. The place ends where one of them will, and another slab is started
    /// where no whole one fits, so that hardly ever the beginning of one must be moved.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let typical = if self.last_total >= TYPICAL_MIN { self.last_total } else { 0 };
        let missing = match self.expected {
            Some(total) => total.saturating_sub(self.filled),
            None if self.filled < typical => typical - self.filled,
            None => 0,
        };
        let free = self.slab.len() - self.filled;
        let shrink = self.quiet >= QUIET_READS && self.slab.len() > SMALL_SLAB && self.filled == 0;
        if free < missing.max(LEAST_READ) || shrink {
            if shrink {
                self.large = false;
                self.last_total = 0;
            }
            self.renew(missing);
        }
        let free = self.slab.len() - self.filled;
        let end = match (free.saturating_sub(missing)).checked_div(typical) {
            Some(more) if missing > 0 => self.filled + missing + more * typical,
            _ => self.slab.len(),
        };
        self.slab.get_mut(self.filled..end).unwrap_or_default()
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
            if self.retired.len() >= RETIRED_BEHIND {
                self.retired.remove(0);
            }
            self.retired.push(old);
            self.give_up_idle(size);
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

    /// Gives memory back that a backlog has called for, once it is over.
    fn give_up_idle(&mut self, size: usize) {
        let spare = self.retired.len() > RETIRED;
        let free = if spare { self.retired.iter_mut().position(|slab| slab.try_reclaim(size)) } else { None };
        self.idle = if free.is_some() { self.idle + 1 } else { 0 };
        if let (Some(position), IDLE_TURNS..) = (free, self.idle) {
            self.retired.swap_remove(position);
            self.idle = 0;
        }
    }

    /// `n` bytes were read into [`space`](Self::space).
    pub(crate) fn received(&mut self, n: usize) {
        self.filled = (self.filled + n).min(self.slab.len());
        self.fresh = true;
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

    /// Says whether bulk becomes jobs.
    pub(crate) const fn set_workers(&mut self, workers: bool) {
        self.workers = workers;
    }

    /// The next complete packet, opened. `None` also while a job has it.
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
        if self.filled < total {
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

    /// Begins to hide that a packet of which `seen` bytes are taken, and their tag computed, is wrong.
    fn conceal(&mut self, seen: usize) -> Result<Option<Packet>, TransportError> {
        let most = self.max_packet as usize;
        let left = most.saturating_sub(seen);
        self.swallow = Some(Swallow { left, not_hashed: left });
        self.swallow()
    }

    /// Drops what comes; when it is as much as the largest packet has, says what a wrong tag would have said.
    fn swallow(&mut self) -> Result<Option<Packet>, TransportError> {
        let Some(swallow) = &mut self.swallow else { return Ok(None) };
        let taken = swallow.left.min(self.filled);
        swallow.left -= taken;
        let (left, not_hashed) = (swallow.left, swallow.not_hashed);
        self.take(taken);
        if left > 0 {
            return Ok(None);
        }
        self.key.waste_time(not_hashed);
        Err(TransportError::BadMac)
    }

    /// Total size of the packet at the front of what is not cut off, once its length is there.
    fn total(&mut self) -> Result<Option<usize>, TransportError> {
        if self.expected.is_none() {
            let Some(head) = self.unread().get(..self.key.head_len()) else { return Ok(None) };
            let length = self.key.packet_length(&self.framed.index, head);
            self.check_length(length)?;
            // Kept, so that a length that has to be decrypted is decrypted once.
            let total = 4 + length as usize + self.key.tag_len();
            self.expected = Some(total);
            self.last_total = total;
        }
        Ok(self.expected)
    }

    /// Cuts packets that have arrived into pieces for workers. Only while no packet can change the keys.
    pub(crate) fn cut(&mut self, authenticated: bool, jobs: &mut VecDeque<Job>) {
        let after_broken = matches!(self.ahead.back(), Some(Ahead::Broken(_)));
        // Too few packets for a piece: they are opened one by one, unless they stand behind pieces.
        if !self.workers || self.key.is_serial() || !self.fresh || after_broken || self.filled < PIECE_MIN {
            return;
        }
        // Not to look at the same small packets once for each of them.
        self.fresh = false;
        let mut packets = self.lists.pop().unwrap_or_default();
        let mut end = 0;
        let mut position = self.framed;
        loop {
            // Found again by the serial path, and in the right place, when everything before it is delivered.
            if position.exhausted(&self.key, authenticated) {
                break;
            }
            let Some(head) = self.unread().get(end..end + self.key.head_len()) else { break };
            let length = self.key.packet_length(&position.index, head);
            if let Err(error) = self.check_length(length) {
                self.cut_off(&mut packets, &mut end, position, jobs);
                if self.ahead.is_empty() {
                    // As it stands, the next call of `next` finds it.
                    self.lists.push(packets);
                } else {
                    self.ahead.push_back(Ahead::Broken(error));
                }
                return;
            }
            let total = 4 + length as usize + self.key.tag_len();
            if end + total > self.filled {
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
        // To know how much is missing. An error is found again by `next`.
        let _ = self.total();
    }

    /// Makes `packets`, which are the first `end` bytes, a job.
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

    /// A piece comes back opened.
    pub(crate) fn opened(&mut self, id: u64, work: OpenWork) {
        let place =
            self.ahead.iter_mut().find(|ahead| matches!(ahead, Ahead::Out { id: other, .. } if *other == id));
        if let Some(place) = place {
            let OpenWork { data, packets, opened, .. } = work;
            *place = Ahead::Back { data: data.freeze(), packets, next: 0, opened };
        }
    }

    /// The next packet is with a worker.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.ahead.front(), Some(Ahead::Out { .. }))
    }

    /// Bytes that were cut off and not delivered.
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

    /// A length that cannot be ends the connection at once, as in OpenSSH: a changed length field tells an attacker
    /// nothing that they did not know, and what is sent back does not hold the value. (With CBC it would tell something:
    /// [`conceal`](Self::conceal).)
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

    /// Packets from now on use these keys.
    ///
    /// # Errors
    /// Packets under the old keys stand behind NEWKEYS. Only a peer that meant it can have sent them: it gets the answer
    /// that packets under the wrong keys get.
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

    /// Used slabs that are kept.
    #[cfg(test)]
    pub(crate) fn retired(&self) -> usize {
        self.retired.len()
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
        self.framed = position;
    }
}

/// The payload of a packet without padding.
fn bare(packet: Bytes, seq: u32) -> Result<Packet, TransportError> {
    match packet.get(4) {
        Some(0) => Ok(Packet { seq, payload: packet.slice(5..) }),
        padding => Err(TransportError::Padding(padding.copied().unwrap_or_default())),
    }
}

/// The payload of a packet that was opened.
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
