//! The packets under way: one block of memory, allocated and touched beforehand, used round and round.
//!
//! A packet is read straight into the place where it will stay until it is written out. Each takes what it needs
//! (not a slot of the greatest length), so a megabyte of acknowledgements takes a megabyte.

use std::collections::VecDeque;

/// Room for the longest packet with its header.
pub const SLOT: usize = 65_536 + 64;

/// Packets start at multiples of this: a cache line.
const ALIGN: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Item {
    due: u64,
    start: usize,
    len: usize,
}

/// Packets in order of arrival.
#[derive(Debug)]
pub struct Ring {
    bytes: Vec<u8>,
    items: VecDeque<Item>,
    /// Where the next packet goes.
    tail: usize,
}

impl Ring {
    /// A ring for this many bytes of packets as they count on the wire.
    pub fn new(wire_bytes: u64) -> Self {
        // The shortest packet takes a cache line for its 54 bytes on the wire; two slots are lost where the ring
        // closes, two more are room to read into.
        let wanted = wire_bytes + wire_bytes / 4 + 4 * SLOT as u64;
        let len = usize::try_from(wanted).unwrap_or(usize::MAX).next_multiple_of(ALIGN);
        let mut bytes = vec![0; len];
        // The kernel gives memory at the first touch, which would make the first round slow.
        bytes.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        Self { bytes, items: VecDeque::with_capacity(len / 2048), tail: 0 }
    }

    /// A place for one packet of up to [`SLOT`] bytes, or nothing where the ring is full.
    pub fn reserve(&mut self) -> Option<&mut [u8]> {
        match self.items.front() {
            // The same memory again is still in the cache.
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

    /// Keeps the first `len` bytes of what [`Ring::reserve`] returned until `due`.
    pub fn commit(&mut self, len: usize, due: u64) {
        let len = len.min(SLOT);
        self.items.push_back(Item { due, start: self.tail, len });
        self.tail += len.max(1).next_multiple_of(ALIGN);
    }

    /// When the first packet is due.
    pub fn next_due(&self) -> Option<u64> {
        self.items.front().map(|item| item.due)
    }

    /// The first packet and when it was due, if that is not later than `now`.
    pub fn due(&self, now: u64) -> Option<(u64, &[u8])> {
        let item = self.items.front().filter(|item| item.due <= now)?;
        Some((item.due, self.bytes.get(item.start..item.start + item.len)?))
    }

    /// Forgets the first packet.
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
        fn what_goes_in_comes_out_in_order(steps in prop::collection::vec((any::<bool>(), 1usize..SLOT), 1..400)) {
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
    fn it_holds_what_it_was_made_for_in_small_and_in_large_packets() {
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
