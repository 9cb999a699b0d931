//! Random bytes that come back the same every time.

/// A small generator (xorshift64*) for tests: seeded, repeatable, and no good for anything secret.
#[derive(Debug, Clone)]
pub struct Seeded(u64);

impl Seeded {
    /// The same seed gives the same bytes.
    pub const fn new(seed: u64) -> Self {
        // Zero is the one state xorshift never leaves.
        Self(seed ^ 0x9e37_79b9_7f4a_7c15 | 1)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`, which must not be 0.
    pub const fn below(&mut self, limit: usize) -> usize {
        (self.next_u64() % limit as u64) as usize
    }

    /// As many bytes as `size`.
    pub fn bytes(&mut self, size: usize) -> Vec<u8> {
        let mut out = vec![0; size];
        self.fill(&mut out);
        out
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}
