//! The form of a packet that is sent: its size, and the random bytes that fill it up.

use lh_crypto::{PacketKey, Random};

/// Size of `packet_length` and `padding_length`, bytes.
pub(crate) const HEADER: usize = 5;

/// Random bytes fetched at once for padding.
const PADDING_POOL: usize = 1024;

/// Random bytes for padding, fetched in advance: one call of the generator serves many packets.
pub(crate) struct PaddingPool {
    random: Box<dyn Random + Send>,
    pool: Box<[u8; PADDING_POOL]>,
    used: usize,
}

impl PaddingPool {
    /// Returns a pool that takes its bytes from `random`.
    pub(crate) fn new(random: Box<dyn Random + Send>) -> Self {
        Self { random, pool: Box::new([0; PADDING_POOL]), used: PADDING_POOL }
    }

    /// Returns the generator, for uses other than padding.
    pub(crate) fn random(&mut self) -> &mut dyn Random {
        &mut *self.random
    }

    /// Fills `out` with random bytes.
    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        if self.used + out.len() > PADDING_POOL {
            self.random.fill(&mut self.pool[..]);
            self.used = 0;
        }
        // Padding is at most 255 bytes, so it always fits a full pool.
        match self.pool.get(self.used..self.used + out.len()) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => self.random.fill(out),
        }
        self.used += out.len();
    }
}

/// Returns the size of a packet without its tag, bytes (RFC 4253 section 6). What exceeds header and payload
/// is padding. `bare`: packets without padding, see [`Transport::relayed`](crate::Transport::relayed).
pub(crate) fn packet_size(key: &PacketKey, bare: bool, payload: usize) -> usize {
    if bare {
        return HEADER + payload;
    }
    let block = key.block_len().max(8);
    let padded = if key.length_is_padded() { HEADER + payload } else { HEADER - 4 + payload };
    let mut padding = block - padded % block;
    if padding < 4 {
        padding += block;
    }
    HEADER + payload + padding
}
