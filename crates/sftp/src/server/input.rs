//! Bytes of requests that have arrived, and the credit for them.

use bytes::Bytes;

use crate::chunks::Chunks;

/// Received bytes and their credit.
#[derive(Default)]
pub(super) struct Input {
    /// Bytes of requests that are not served yet.
    pub(super) chunks: Chunks,
    /// Number of bytes received, and number of bytes for which credit was given.
    received: u64,
    credited: u64,
}

impl Input {
    /// Appends received bytes.
    pub(super) fn push(&mut self, data: Bytes) {
        self.received += data.len() as u64;
        self.chunks.push(data);
    }

    /// Counts received bytes without keeping them, after an error of the protocol.
    pub(super) const fn drop_unread(&mut self, data: &Bytes) {
        self.received += data.len() as u64;
    }

    /// Returns true if a whole message has arrived.
    pub(super) fn has_message(&self) -> bool {
        let mut length = [0; 4];
        self.chunks.peek(&mut length)
            && (self.chunks.len() - 4) as u64 >= u64::from(u32::from_be_bytes(length))
    }

    /// Returns the number of bytes that credit may now be given for. With `hold`, bytes not served yet get
    /// none.
    pub(super) fn credit(&mut self, hold: bool) -> usize {
        let held = if hold { self.chunks.len() as u64 } else { 0 };
        let used = (self.received - held).max(self.credited);
        let credit = usize::try_from(used - self.credited).unwrap_or(usize::MAX);
        self.credited = used;
        credit
    }
}
