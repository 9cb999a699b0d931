//! The interface between the protocol layers and the packet layer.

use crate::{Message, Slices};

/// Destination of the packets that a protocol layer sends, in order.
///
/// Bulk data is written straight into the send buffer (`docs/architecture.md`, the data path): a file is read
/// into the memory in which it is sealed and from which it is sent. A sink never refuses a packet. Producers
/// of bulk data first ask the owner of the sink whether it has free capacity.
pub trait PacketSink {
    /// Sends one packet with this payload, message number included.
    fn payload(&mut self, payload: &[u8]);

    /// Reserves memory for packets whose payloads have at most these `sizes`, bytes. Nothing is sent before
    /// [`commit`](Self::commit), which must be the next call that sends something.
    fn reserve(&mut self, sizes: &[usize]);

    /// Returns the payload memory of the `packets` that were reserved last, one slice of exactly its size for
    /// each. It holds old bytes of earlier packets of this connection: overwrite all that is committed.
    fn reserved(&mut self, packets: usize) -> Slices<'_>;

    /// Sends the reserved packets. `used` has the length of each payload, at most its size; 0 drops the
    /// packet. Only packets at the end may be shortened or dropped.
    fn commit(&mut self, used: &[usize]);

    /// Sends one message.
    fn message<'a, M: Message<'a>>(&mut self, message: &M)
    where
        Self: Sized,
    {
        let mut payload = Vec::with_capacity(64);
        message.encode(&mut payload);
        self.payload(&payload);
    }
}

/// Collects payloads; for tests and for messages that are sent later. Reserved payloads are at the end until
/// they are committed.
impl PacketSink for Vec<Vec<u8>> {
    fn payload(&mut self, payload: &[u8]) {
        self.push(payload.to_vec());
    }

    fn reserve(&mut self, sizes: &[usize]) {
        self.extend(sizes.iter().map(|&size| vec![0; size]));
    }

    fn reserved(&mut self, packets: usize) -> Slices<'_> {
        let first = self.len().saturating_sub(packets);
        self.iter_mut().skip(first).map(|payload| &mut payload[..]).collect()
    }

    fn commit(&mut self, used: &[usize]) {
        let first = self.len().saturating_sub(used.len());
        for (mut payload, &size) in self.split_off(first).into_iter().zip(used) {
            payload.truncate(size);
            if !payload.is_empty() {
                self.push(payload);
            }
        }
    }
}
