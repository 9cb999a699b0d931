//! Retention: sent messages are kept until the peer has acknowledged them, so that a session can continue
//! over another connection.
//!
//! Packets are sealed in place, so their plain text is gone. The slabs are kept instead of being reused. Each
//! counted message has an entry: the place of its packet, and the index and key that sealed it. To send a
//! message again, its packet is opened in its slab with the inverse key ([`Retention::next`]). Nothing is
//! copied, with two exceptions, in which opening needs more than the packet itself:
//!
//! * a compressed message depends on all messages before it in zlib's stream;
//! * a packet under a chained suite (CBC) depends on the packet before it.
//!
//! In these two cases the payload is copied when it is queued.

use std::collections::VecDeque;
use std::ops::Range;

use lh_crypto::{CryptoError, Direction, PacketIndex, PacketKey};
use lh_resume::{CountError, Unacknowledged, is_counted};

use crate::epoch::RawKeys;

/// Size of `packet_length` and `padding_length`, bytes.
const HEADER: usize = 5;

/// Data needed to send a message again.
pub(crate) enum Entry {
    /// A packet in a slab, with the number of the keys that seal it.
    Packet { slab: u64, range: Range<usize>, index: PacketIndex, keys: u64 },
    /// A copy of the payload.
    Copy(Vec<u8>),
}

/// A slab whose bytes are all written but whose packets are not all acknowledged.
struct KeptSlab {
    number: u64,
    /// Number of the last message whose packet is in this slab.
    last: u64,
    data: Box<[u8]>,
    /// End of the sealed packets. The packets behind it are still plain text.
    sealed: usize,
}

/// The keys between two NEWKEYS.
struct Generation {
    number: u64,
    raw: RawKeys,
    /// Number of messages sent when the next keys replaced these; `None` for the keys in use.
    end: Option<u64>,
}

/// The messages of a direction that the peer has not acknowledged.
pub(crate) struct Retention {
    /// Copied payloads count with their length. Packets count as 0 bytes, because `slab_bytes` includes them.
    unacknowledged: Unacknowledged<Entry>,
    slabs: VecDeque<KeptSlab>,
    /// Memory of `slabs`, bytes.
    slab_bytes: usize,
    /// Generations of keys, oldest first. The last one seals new packets.
    keys: VecDeque<Generation>,
    /// The packet being queued belongs to a message whose payload was copied.
    copied: bool,
    /// Memory at which producers of bulk data stop, bytes.
    budget: usize,
}

impl Retention {
    /// Starts with the message `first`; packets are sealed with `keys` from now on.
    pub(crate) fn new(first: u64, keys: RawKeys, budget: usize) -> Self {
        Self {
            unacknowledged: Unacknowledged::new(first),
            slabs: VecDeque::new(),
            slab_bytes: 0,
            keys: VecDeque::from([Generation { number: 0, raw: keys, end: None }]),
            copied: false,
            budget,
        }
    }

    /// Uses these keys for packets that are queued from now on.
    pub(crate) fn new_keys(&mut self, raw: RawKeys) {
        let sent = self.unacknowledged.sent();
        let mut number = 0;
        if let Some(last) = self.keys.back_mut() {
            last.end = Some(sent);
            number = last.number + 1;
        }
        self.keys.push_back(Generation { number, raw, end: None });
        self.forget_keys();
    }

    /// Records a packet that was laid out in a slab. Returns the number of its message if the packet must
    /// stay there. `serial`: packets under its key depend on each other.
    pub(crate) fn on_packet(
        &mut self,
        slab: u64,
        range: Range<usize>,
        index: PacketIndex,
        serial: bool,
        payload: &[u8],
    ) -> Option<u64> {
        if self.copied || !payload.first().is_some_and(|&number| is_counted(number)) {
            return None;
        }
        if serial {
            self.copy(payload);
            return None;
        }
        let keys = self.keys.back().map_or(0, |keys| keys.number);
        Some(self.unacknowledged.push(Entry::Packet { slab, range, index, keys }, 0))
    }

    /// Records a message whose packet cannot be opened by itself.
    pub(crate) fn copy(&mut self, payload: &[u8]) {
        if payload.first().is_some_and(|&number| is_counted(number)) {
            self.unacknowledged.push(Entry::Copy(payload.to_vec()), payload.len());
        }
    }

    /// Sets whether the packet being queued belongs to a message that was [copied](Self::copy).
    pub(crate) const fn set_copied(&mut self, copied: bool) {
        self.copied = copied;
    }

    /// Returns true when a slab is still needed. `last` is the number of the last message in it.
    pub(crate) fn needs(&self, last: Option<u64>) -> bool {
        last.is_some_and(|last| last >= self.unacknowledged.acknowledged())
    }

    /// Keeps a slab whose bytes are all written, if it is needed; otherwise returns it.
    pub(crate) fn keep(
        &mut self,
        number: u64,
        last: Option<u64>,
        data: Box<[u8]>,
        sealed: usize,
    ) -> Option<Box<[u8]>> {
        match last {
            Some(last) if self.needs(Some(last)) => {
                self.slab_bytes += data.len();
                self.slabs.push_back(KeptSlab { number, last, data, sealed });
                None
            }
            _ => Some(data),
        }
    }

    /// Records that the peer has received the first `count` messages. `free` gets the slabs that are no
    /// longer needed.
    pub(crate) fn acknowledge(
        &mut self,
        count: u64,
        mut free: impl FnMut(Box<[u8]>),
    ) -> Result<(), CountError> {
        self.unacknowledged.acknowledge(count, drop)?;
        while self.slabs.front().is_some_and(|slab| slab.last < count) {
            let Some(slab) = self.slabs.pop_front() else { break };
            self.slab_bytes -= slab.data.len();
            free(slab.data);
        }
        self.forget_keys();
        Ok(())
    }

    /// Wipes the keys under which no kept message was sealed.
    fn forget_keys(&mut self) {
        let acknowledged = self.unacknowledged.acknowledged();
        while self.keys.front().and_then(|keys| keys.end).is_some_and(|end| end <= acknowledged) {
            self.keys.pop_front();
        }
    }

    /// Returns the memory that is kept beside the send queue, bytes.
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.slab_bytes + self.unacknowledged.bytes()
    }

    /// Returns the memory at which producers of bulk data stop, bytes.
    pub(crate) const fn budget(&self) -> usize {
        self.budget
    }

    /// Returns the counted messages.
    pub(crate) const fn unacknowledged(&self) -> &Unacknowledged<Entry> {
        &self.unacknowledged
    }

    /// Returns the number of generations of keys that are kept.
    #[cfg(test)]
    pub(crate) fn generations(&self) -> usize {
        self.keys.len()
    }

    /// Changes a byte of the oldest slab's packets.
    #[cfg(test)]
    pub(crate) fn corrupt(&mut self) {
        self.slabs[0].data[1000] ^= 1;
    }

    /// Removes the oldest message and returns its payload, opened in its slab. Slabs are freed on the way, so
    /// that no second copy is needed. `None`: all messages have been returned.
    ///
    /// # Errors
    /// A packet cannot be opened, which only corrupted memory explains.
    pub(crate) fn next(&mut self, opener: &mut Opener) -> Result<Option<Opened<'_>>, CryptoError> {
        const BROKEN: CryptoError = CryptoError::WrongLength { what: "retained packet" };
        let (number, range, index, keys) = match self.unacknowledged.pop() {
            None => return Ok(None),
            Some(Entry::Copy(payload)) => return Ok(Some(Opened::Copy(payload))),
            Some(Entry::Packet { slab, range, index, keys }) => (slab, range, index, keys),
        };
        while self.slabs.front().is_some_and(|slab| slab.number < number) {
            self.slab_bytes -= self.slabs.pop_front().map_or(0, |slab| slab.data.len());
        }
        let slab = self.slabs.front_mut().filter(|slab| slab.number == number).ok_or(BROKEN)?;
        let sealed = range.end <= slab.sealed;
        let packet = slab.data.get_mut(range).ok_or(BROKEN)?;
        let key = opener.key(&self.keys, keys)?;
        if sealed {
            key.open(&index, packet).map_err(|_| BROKEN)?;
        }
        let without_tag = packet.len().checked_sub(key.tag_len()).ok_or(BROKEN)?;
        let padding = packet.get(HEADER - 1).copied().map_or(0, usize::from);
        let end = without_tag.checked_sub(padding).ok_or(BROKEN)?;
        Ok(Some(Opened::Packet(packet.get(HEADER..end).ok_or(BROKEN)?)))
    }
}

/// A payload to send again.
pub(crate) enum Opened<'a> {
    Packet(&'a [u8]),
    Copy(Vec<u8>),
}

impl Opened<'_> {
    pub(crate) fn payload(&self) -> &[u8] {
        match self {
            Self::Packet(payload) => payload,
            Self::Copy(payload) => payload,
        }
    }
}

/// The inverse of the keys that were used last. Messages are opened in order, so one generation is kept at a
/// time.
#[derive(Default)]
pub(crate) struct Opener {
    key: Option<(u64, PacketKey)>,
}

impl Opener {
    fn key(&mut self, keys: &VecDeque<Generation>, number: u64) -> Result<&PacketKey, CryptoError> {
        const MISSING: CryptoError = CryptoError::WrongLength { what: "retained keys" };
        if self.key.as_ref().is_none_or(|(current, _)| *current != number) {
            let keys = keys.iter().find(|keys| keys.number == number).ok_or(MISSING)?;
            self.key = Some((number, keys.raw.packet_key(Direction::Open)?));
        }
        self.key.as_ref().map(|(_, key)| key).ok_or(MISSING)
    }
}
