//! The seam between those who have something to say and the packet layer that sends it.

use std::io::IoSliceMut;

use crate::Message;

/// Where a protocol layer puts the packets it wants sent, in order.
///
/// Payloads are written straight into the send buffer (`docs/architecture.md`, the data path): a file is read
/// into the place from which it is sealed and sent. A sink never refuses; whoever produces bulk asks the
/// owner of the sink first whether it has room.
pub trait PacketSink {
    /// Sends one packet with this payload, message number included.
    fn payload(&mut self, payload: &[u8]);

    /// Sends several packets at once. `sizes[i]` is the largest payload of packet `i`. `fill` gets one slice
    /// of exactly that size per packet, writes the payloads, and reduces `sizes[i]` to what it used.
    /// A size of 0 drops the packet; only packets at the end may be shortened or dropped.
    ///
    /// The slices hold left-over bytes of earlier packets of this connection: all that is kept must be written.
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
