//! `running-sum@longhaul`: verifies that the file at one end holds the bytes read at the other end, while the
//! bytes are still in caches.
//!
//! The ends cannot compute a digest of the whole file during the transfer: its pieces may arrive in any
//! order, over several channels and handles. So each piece (one WRITE, or the answer to one READ) has its own
//! digest: XXH3 of 128 bits with the piece's offset as the seed. The sum of a file is the sum of these
//! numbers, together with the number of bytes. Sums of several handles can be added. Both ends see the same
//! pieces, so they need not agree on the size of pieces.
//!
//! The writer digests one of two things. With [`ReadBack::Whole`] it reads all data back right after writing,
//! and digests them: readers of the file will see these bytes. With [`ReadBack::Spots`] it digests the data
//! that it passed to the kernel, and reads back and compares only the first and last page of the piece.
//! Reading back everything costs a third of the time for writing a file in memory. The sum finds faults of
//! memory, file systems and programs. It does not find attacks: the connection protects against those.
//! `check-file` has cryptographic digests.
//!
//! On the wire: EXTENDED with the name, `string handle`, `byte step` ([`SumStep`]). The reply to
//! [`SumStep::Finish`] is EXTENDED_REPLY with `uint64 bytes`, `byte[16] sum`, big-endian. The reply to
//! [`SumStep::Begin`] is STATUS.

use lh_wire::{Reader, Writer};
use twox_hash::XxHash3_128;

/// The sum of a file, or of a part of it, as the module documentation defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunningSum {
    /// Number of bytes in the sum.
    pub bytes: u64,
    /// Sum of the pieces' digests, modulo 2^128.
    pub sum: u128,
}

impl RunningSum {
    /// Adds a piece that is in memory.
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

    /// Adds a piece whose digest is complete.
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

/// Share of the written data that is read back for comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadBack {
    /// All written data.
    Whole,
    /// The first and last page of each piece. Pieces of two pages or less are read back as a whole.
    Spots,
}

/// A request for a handle's sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SumStep {
    /// Start a new sum.
    Begin(ReadBack),
    /// Return the sum and end it.
    Finish,
}

impl SumStep {
    /// Returns the number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Begin(ReadBack::Whole) => 0,
            Self::Finish => 1,
            Self::Begin(ReadBack::Spots) => 2,
        }
    }

    /// Returns the step with this number.
    ///
    /// # Errors
    /// The number is unknown.
    pub const fn from_number(number: u8) -> lh_wire::Result<Self> {
        match number {
            0 => Ok(Self::Begin(ReadBack::Whole)),
            1 => Ok(Self::Finish),
            2 => Ok(Self::Begin(ReadBack::Spots)),
            _ => Err(lh_wire::WireError::Invalid { what: "step of a sum" }),
        }
    }
}

/// Number of bytes that are compared at each end of a piece: a page.
const SPOT: usize = 4096;

/// Number of bytes that are read back at a time. They fit the first-level cache, and the buffer needs no
/// allocation.
const READ_BACK: usize = 32 * 1024;

/// The digest of one piece, while it is computed.
#[derive(Clone)]
pub struct PieceSum {
    state: XxHash3_128,
    len: u64,
}

impl PieceSum {
    /// Starts a piece that begins at `offset` of its file.
    pub fn new(offset: u64) -> Self {
        Self { state: XxHash3_128::with_seed(offset), len: 0 }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, data: &[u8]) {
        self.len += data.len() as u64;
        self.state.write(data);
    }

    /// Returns the digest of the `len` bytes at the front of `slices` that were just written at `offset`.
    /// With [`ReadBack::Spots`], only both ends of the piece are read back and compared, and it is the digest
    /// of the written bytes. With [`ReadBack::Whole`], and if an end differs, it is the digest of the bytes
    /// read back (see [`read_back`](Self::read_back)).
    ///
    /// # Errors
    /// The error of `read`.
    pub fn of_written<S: std::ops::Deref<Target = [u8]>, E>(
        how: ReadBack,
        offset: u64,
        slices: &[S],
        len: usize,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<Self, E> {
        let spots = how == ReadBack::Spots && len > 2 * SPOT;
        if spots
            && is_there(offset, slices, 0, &mut read)?
            && is_there(offset, slices, len - SPOT, &mut read)?
        {
            let mut piece = Self::new(offset);
            piece.update_slices(slices, len);
            return Ok(piece);
        }
        Self::read_back(offset, len, read)
    }

    /// Returns the digest of the `len` bytes that were just written at `offset`, as `read` reads them back.
    /// `read` fills a buffer from an offset on. The piece is shorter where the file ends earlier.
    ///
    /// # Errors
    /// The error of `read`.
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

    /// Returns the length of the piece so far, in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns true while the piece is empty.
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

/// Reads the [`SPOT`] bytes of the file that were written from `slices` at index `at`. Returns true if they
/// are equal.
fn is_there<S: std::ops::Deref<Target = [u8]>, E>(
    offset: u64,
    slices: &[S],
    at: usize,
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<bool, E> {
    let mut spot = [0; SPOT];
    let mut done = 0;
    while let Some(room) = spot.get_mut(done..).filter(|room| !room.is_empty()) {
        let room_len = room.len();
        match read(offset.saturating_add((at + done) as u64), room)?.min(room_len) {
            0 => return Ok(false),
            got => done += got,
        }
    }
    let (mut skip, mut seen) = (at, &spot[..]);
    for slice in slices {
        let slice: &[u8] = slice;
        let Some(here) = slice.get(skip..) else {
            skip -= slice.len();
            continue;
        };
        skip = 0;
        let (first, rest) = seen.split_at(here.len().min(seen.len()));
        if here.get(..first.len()) != Some(first) {
            return Ok(false);
        }
        seen = rest;
    }
    Ok(seen.is_empty())
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
    fn sums_ignore_order_and_slicing_of_pieces() {
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

    /// Returns a function that reads a file in memory, 1,000 bytes at a time.
    fn file(data: &[u8]) -> impl FnMut(u64, &mut [u8]) -> Result<usize, ()> + '_ {
        |at, room| {
            let rest = data.get(at as usize..).unwrap_or_default();
            let len = rest.len().min(room.len()).min(1_000);
            room[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }
    }

    #[test]
    fn read_back_finds_changed_bytes() {
        let data: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(n) >> 3) as u8).collect();
        let slices = [&data[10..13], &data[13..70_010]];
        let of = |how, there: &[u8]| {
            let piece = PieceSum::of_written(how, 10, &slices, 70_000, file(there)).unwrap();
            let mut sum = RunningSum::default();
            sum.finish_piece(piece);
            sum
        };
        let right = of(ReadBack::Whole, &data);
        let mut written = RunningSum::default();
        written.add(10, &data[10..70_010]);
        assert_eq!(right, written);
        assert_eq!(right, of(ReadBack::Spots, &data));
        // (offset of the wrong byte, and whether comparing the spots finds it)
        for (at, found) in
            [(10, true), (12, true), (4_105, true), (40_000, false), (70_009, true), (65_914, true)]
        {
            let mut wrong = data.clone();
            wrong[at] ^= 1;
            assert_ne!(right, of(ReadBack::Whole, &wrong), "{at}");
            assert_eq!(right != of(ReadBack::Spots, &wrong), found, "{at}");
        }
        // The file is too short, or the piece is so small that it is read back as a whole.
        assert_ne!(right, of(ReadBack::Spots, &data[..70_009]));
        let mut wrong = data.clone();
        wrong[5_000] ^= 1;
        let small = |there: &[u8]| {
            let piece =
                PieceSum::of_written(ReadBack::Spots, 0, &[&data[..8_192]], 8_192, file(there)).unwrap();
            piece.state.finish_128()
        };
        assert_ne!(small(&data), small(&wrong));
    }

    #[test]
    fn unknown_steps_are_refused() {
        for number in 0..=2 {
            assert_eq!(SumStep::from_number(number).map(SumStep::number), Ok(number));
        }
        assert!(SumStep::from_number(3).is_err());
    }

    #[test]
    fn changed_and_moved_bytes_change_the_sum() {
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
