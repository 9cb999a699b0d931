//! The interface between the protocol layers and the packet layer.

use std::io::IoSliceMut;

use crate::Message;

/// Destination of the packets that a protocol layer sends, in order.
///
/// Payloads are written straight into the send buffer (`docs/architecture.md`, the data path): a file is read
/// into the memory in which it is sealed and from which it is sent. A sink never refuses a packet. Producers
/// of bulk data first ask the owner of the sink whether it has free capacity.
pub trait PacketSink {
    /// Sends one packet with this payload, message number included.
    fn payload(&mut self, payload: &[u8]);

    /// Sends several packets at once. `sizes[i]` is the largest payload of packet `i`, bytes. `fill` gets one
    /// slice of exactly that size per packet, writes the payloads, and reduces `sizes[i]` to the bytes used.
    /// A size of 0 drops the packet. Only packets at the end may be shortened or dropped.
    ///
    /// The slices hold old bytes of earlier packets of this connection: `fill` must overwrite everything it
    /// keeps.
    fn payloads(&mut self, sizes: &mut [usize], fill: &mut dyn FnMut(&mut [IoSliceMut<'_>], &mut [usize]));

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

/// Collects payloads; for tests and for messages that are sent later.
impl PacketSink for Vec<Vec<u8>> {
    fn payload(&mut self, payload: &[u8]) {
        self.push(payload.to_vec());
    }

    fn payloads(&mut self, sizes: &mut [usize], fill: &mut dyn FnMut(&mut [IoSliceMut<'_>], &mut [usize])) {
        let mut buffers: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![0; size]).collect();
        let mut slices: Vec<IoSliceMut<'_>> = buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        fill(&mut slices, sizes);
        for (mut buffer, &size) in buffers.into_iter().zip(sizes.iter()) {
            if size > 0 {
                buffer.truncate(size);
                self.push(buffer);
            }
        }
    }
}
