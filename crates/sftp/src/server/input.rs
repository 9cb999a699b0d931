//! Bytes of requests that have arrived, and the credit for them.

use bytes::Bytes;

use crate::chunks::Chunks;

/// See the module documentation.
#[derive(Default)]
pub(super) struct Input {
    /// What no request was taken from yet.
    pub(super) chunks: Chunks,
    /// Bytes that came since the beginning, and bytes for which credit was given.
    received: u64,
    credited: u64,
}

impl Input {
    /// Bytes came.
    pub(super) fn push(&mut self, data: Bytes) {
        self.received += data.len() as u64;
        self.chunks.push(data);
    }

    /// Bytes came that no request is taken from any more.
    pub(super) const fn drop_unread(&mut self, data: &Bytes) {
        self.received += data.len() as u64;
    }

    /// True when a whole message is there.
    pub(super) fn has_message(&self) -> bool {
        let mut length = [0; 4];
        self.chunks.peek(&mut length)
            && (self.chunks.len() - 4) as u64 >= u64::from(u32::from_be_bytes(length))
    }

    /// Returns for how many bytes more credit may be given. `hold`: not for those that wait.
    pub(super) fn credit(&mut self, hold: bool) -> usize {
        let held = if hold { self.chunks.len() as u64 } else { 0 };
        let used = (self.received - held).max(self.credited);
        let credit = usize::try_from(used - self.credited).unwrap_or(usize::MAX);
        self.credited = used;
        credit
    }
}
