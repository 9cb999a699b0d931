//! Reproducible random bytes.

/// A small generator (xorshift64*) for tests: seeded, reproducible, and unsuitable for secrets.
#[derive(Debug, Clone)]
pub struct Seeded(u64);

impl Seeded {
    /// Creates a generator; equal seeds give equal bytes.
    pub const fn new(seed: u64) -> Self {
        // Setting bit 0 avoids the state zero, which xorshift never leaves.
        Self(seed ^ 0x9e37_79b9_7f4a_7c15 | 1)
    }

    /// Returns the next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub const fn below(&mut self, limit: usize) -> usize {
        (self.next_u64() % limit as u64) as usize
    }

    /// Returns `size` bytes.
    pub fn bytes(&mut self, size: usize) -> Vec<u8> {
        let mut out = vec![0; size];
        self.fill(&mut out);
        out
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}
