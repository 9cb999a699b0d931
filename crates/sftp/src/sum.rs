//! `running-sum@longhaul`: proof that what was read at one end is what the file at the other end holds, while the bytes
//! are hot.
//!
//! A digest of the whole file cannot be made by both ends as they go: pieces may come in any order, over several channels
//! and handles. So each piece (one WRITE, or the answer to one READ) gets a digest of its own, XXH3 of 128 bits with the
//! piece's offset as the seed, and the sum of a file is the sum of these numbers, beside the count of bytes. Sums of several
//! handles add up. Both ends see the same pieces, so nothing needs agreeing on.
//!
//! Whoever writes sums up what it reads back, right after writing: the memory is still in the processor's cache, and what
//! is summed is what readers of the file will see. This finds faults of memory, file systems and programs, not
//! attackers: those are kept out by the connection. `check-file` has cryptographic digests.
//!
//! On the wire: EXTENDED with the name, `string handle`, `byte finish`. With `finish` 0 the sum begins at nothing (answer:
//! STATUS); with 1 the answer is EXTENDED_REPLY with `uint64 bytes`, `byte[16] sum`, big-endian.

use lh_wire::{Reader, Writer};
use twox_hash::XxHash3_128;

/// The sum of a file, or of a part of it. See the module documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunningSum {
    /// How many bytes have been summed.
    pub bytes: u64,
    /// Sum of the pieces' digests, modulo 2^128.
    pub sum: u128,
}

impl RunningSum {
    /// Adds a piece that lies in memory as it is.
    pub fn add(&mut self, offset: u64, data: &[u8]) {
        let mut piece = PieceSum::new(offset);
        piece.update(data);
        self.finish_piece(piece);
    }

    /// Adds the first `len` bytes of `slices` as one piece.
    pub fn add_slices<S: std::ops::Deref<Target = [u8]>>(&mut self, offset: u64, slices: &[S], len: usize) {
        if len > 0 {
            let mut piece = PieceSum::new(offset);
            piece.update_slices(slices, len);
            self.finish_piece(piece);
        }
    }

    /// Adds a piece that came in parts.
    pub fn finish_piece(&mut self, piece: PieceSum) {
        self.bytes = self.bytes.wrapping_add(piece.len);
        self.sum = self.sum.wrapping_add(piece.state.finish_128());
    }

    /// Adds the sum of other pieces of the same file.
    pub const fn merge(&mut self, other: Self) {
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Appends the content of the EXTENDED_REPLY.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.bytes);
        out.put_bytes(&self.sum.to_be_bytes());
    }

    /// Reads the content of the EXTENDED_REPLY.
    pub fn read(reader: &mut Reader<'_>) -> lh_wire::Result<Self> {
        let bytes = reader.u64()?;
        let mut sum = [0; 16];
        sum.copy_from_slice(reader.bytes(16)?);
        Ok(Self { bytes, sum: u128::from_be_bytes(sum) })
    }
}

/// What is read back at a time: it stays in the nearest cache, and no memory has to be had from the system for it.
const READ_BACK: usize = 32 * 1024;

/// One piece in the making.
#[derive(Clone)]
pub struct PieceSum {
    state: XxHash3_128,
    len: u64,
}

impl PieceSum {
    /// A piece that begins at `offset` of its file.
    pub fn new(offset: u64) -> Self {
        Self { state: XxHash3_128::with_seed(offset), len: 0 }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, data: &[u8]) {
        self.len += data.len() as u64;
        self.state.write(data);
    }

    /// The piece of `len` bytes that was just written at `offset`, as `read` gives it back: from an offset on, as much as there is
    /// room for. Shorter where the file ends before.
    ///
    /// # Errors
    /// What `read` says.
    pub fn read_back<E>(
        offset: u64,
        len: usize,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<Self, E> {
        let mut piece = Self::new(offset);
        let mut buffer = vec![0; len.min(READ_BACK)];
        let mut done = 0;
        while done < len {
            let want = (len - done).min(READ_BACK);
            let room = buffer.get_mut(..want).unwrap_or_default();
            match read(offset.saturating_add(done as u64), room)?.min(want) {
                0 => break,
                got => {
                    piece.update(room.get(..got).unwrap_or_default());
                    done += got;
                }
            }
        }
        Ok(piece)
    }

    /// How many bytes it has.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// True while it has none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the first `len` bytes of `slices`.
    pub fn update_slices<S: std::ops::Deref<Target = [u8]>>(&mut self, slices: &[S], mut len: usize) {
        for slice in slices {
            let slice: &[u8] = slice;
            let take = slice.len().min(len);
            self.update(slice.get(..take).unwrap_or_default());
            len -= take;
        }
    }
}

impl std::fmt::Debug for PieceSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PieceSum").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_pieces_and_how_each_came_do_not_matter() {
        let data: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(n) >> 3) as u8).collect();
        let (first, second) = data.split_at(40_000);
        let mut one = RunningSum::default();
        one.add(0, first);
        one.add(40_000, second);
        let mut other = RunningSum::default();
        other.add_slices(40_000, &[&second[..7], &second[7..]], second.len());
        let mut elsewhere = RunningSum::default();
        let mut piece = PieceSum::new(0);
        first.chunks(333).for_each(|part| piece.update(part));
        elsewhere.finish_piece(piece);
        other.merge(elsewhere);
        assert_eq!(one, other);
        let mut wire = Vec::new();
        one.write(&mut wire);
        assert_eq!(RunningSum::read(&mut Reader::new(&wire)), Ok(one));
    }

    #[test]
    fn a_changed_byte_and_a_piece_out_of_place_show() {
        let mut right = RunningSum::default();
        right.add(0, b"longhaul");
        right.add(8, b"longhaul");
        for (a, b, at) in [(&b"longhaul"[..], &b"longhauL"[..], 8), (b"longhaul", b"longhaul", 9)] {
            let mut wrong = RunningSum::default();
            wrong.add(0, a);
            wrong.add(at, b);
            assert_eq!(wrong.bytes, right.bytes);
            assert_ne!(wrong.sum, right.sum);
        }
    }
}
