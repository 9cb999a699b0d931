//! Packets in flight: a ring in one block of memory, allocated and touched beforehand.
//!
//! A packet is read straight into its final slot. Slots have the size of their packets, not of the longest
//! one, so a megabyte of acknowledgements takes a megabyte.

use std::collections::VecDeque;

/// Size reserved for the longest packet with its header, bytes.
pub const SLOT: usize = 65_536 + 64;

/// Alignment of packets: a cache line.
const ALIGN: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Item {
    due: u64,
    start: usize,
    len: usize,
}

/// A queue of packets in order of arrival.
#[derive(Debug)]
pub struct Ring {
    bytes: Vec<u8>,
    items: VecDeque<Item>,
    /// Offset of the next packet.
    tail: usize,
}

impl Ring {
    /// A ring for this many bytes of packets, as on the wire.
    pub fn new(wire_bytes: u64) -> Self {
        // The shortest packet takes a cache line for its 54 bytes on the wire. Two slots are lost at the end
        // of the ring, and two more serve for reading.
        let wanted = wire_bytes + wire_bytes / 4 + 4 * SLOT as u64;
        let len = usize::try_from(wanted).unwrap_or(usize::MAX).next_multiple_of(ALIGN);
        let mut bytes = vec![0; len];
        // The kernel allocates memory at the first access, which would slow the first round down.
        bytes.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        Self { bytes, items: VecDeque::with_capacity(len / 2048), tail: 0 }
    }

    /// Space for one packet of up to [`SLOT`] bytes; `None` when the ring is full.
    pub fn reserve(&mut self) -> Option<&mut [u8]> {
        match self.items.front() {
            // An empty ring starts over, in memory that is still in the cache.
            None => self.tail = 0,
            Some(head) if self.tail > head.start => {
                if self.bytes.len() - self.tail < SLOT {
                    if head.start <= SLOT {
                        return None;
                    }
                    self.tail = 0;
                }
            }
            Some(head) if head.start - self.tail <= SLOT => return None,
            Some(_) => {}
        }
        self.bytes.get_mut(self.tail..self.tail + SLOT)
    }

    /// Keeps the first `len` bytes of the space from [`Ring::reserve`] until `due`.
    pub fn commit(&mut self, len: usize, due: u64) {
        let len = len.min(SLOT);
        self.items.push_back(Item { due, start: self.tail, len });
        self.tail += len.max(1).next_multiple_of(ALIGN);
    }

    /// Due time of the first packet.
    pub fn next_due(&self) -> Option<u64> {
        self.items.front().map(|item| item.due)
    }

    /// The first packet and its due time, if that is not later than `now`.
    pub fn due(&self, now: u64) -> Option<(u64, &[u8])> {
        let item = self.items.front().filter(|item| item.due <= now)?;
        Some((item.due, self.bytes.get(item.start..item.start + item.len)?))
    }

    /// Removes the first packet.
    pub fn pop(&mut self) {
        self.items.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packets_come_out_in_order(steps in prop::collection::vec((any::<bool>(), 1usize..SLOT), 1..400)) {
            let mut ring = Ring::new(300_000);
            let mut model = VecDeque::new();
            let mut serial = 0u64;
            for (put, len) in steps {
                if put {
                    if let Some(place) = ring.reserve() {
                        place[..len].fill(serial as u8);
                        ring.commit(len, serial);
                        model.push_back((serial, len));
                        serial += 1;
                    } else {
                        let held: usize = model.iter().map(|&(_, len)| len).sum();
                        prop_assert!(held > 150_000, "refused with only {held} bytes in it");
                    }
                } else if let Some((due, len)) = model.pop_front() {
                    let (got, bytes) = ring.due(u64::MAX).unwrap();
                    prop_assert_eq!((got, bytes.len()), (due, len));
                    prop_assert!(bytes.iter().all(|&byte| byte == due as u8));
                    ring.pop();
                } else {
                    prop_assert!(ring.due(u64::MAX).is_none());
                }
            }
        }
    }

    #[test]
    fn ring_holds_its_capacity_at_any_packet_size() {
        for len in [50, 1510, 65_536] {
            let mut ring = Ring::new(1_000_000);
            let mut held = 0;
            while ring.reserve().is_some() {
                ring.commit(len, 5);
                held += len + 4;
            }
            assert!(held >= 1_000_000, "{len}: {held}");
            assert_eq!(ring.next_due(), Some(5));
            assert!(ring.due(4).is_none());
        }
    }
}
