//! Reading and writing the bytes of open files, for both ends.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Deref;
use std::os::fd::AsFd;

use rustix::fs;
use rustix::io::{Errno, preadv, pwritev, retry_on_intr, writev};

/// The kernel's IOV_MAX: more slices in one call are an error.
const MAX_SLICES: usize = 1024;

/// Smallest allocation of most file systems, bytes: blocks of zeros of this size are worth leaving out.
const BLOCK: usize = 4096;

/// Reads with preadv(2). The result may be shorter than the buffers; 0 at the end of the file.
///
/// # Errors
/// The error of preadv(2).
pub fn read_at(file: impl AsFd, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    let count = buffers.len().min(MAX_SLICES);
    let buffers = buffers.get_mut(..count).unwrap_or_default();
    retry_on_intr(|| preadv(&file, buffers, offset))
}

/// Reads until `buffer` is full or the file ends.
///
/// # Errors
/// The error of preadv(2).
pub fn read_full(file: impl AsFd, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match read_at(&file, offset.saturating_add(done as u64), &mut [IoSliceMut::new(rest)])? {
            0 => break,
            n => done += n,
        }
    }
    Ok(done)
}

/// Writes with pwritev(2). The result may be shorter than the data.
///
/// # Errors
/// The error of pwritev(2).
pub fn write_at(file: impl AsFd, offset: u64, buffers: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let buffers = buffers.get(..MAX_SLICES).unwrap_or(buffers);
    retry_on_intr(|| pwritev(&file, buffers, offset))
}

/// Writes all of `pieces` from `offset` on.
///
/// # Errors
/// The error of pwritev(2), or of writev(2) where the file cannot seek.
pub fn write_all_at<P: Deref<Target = [u8]>>(
    file: impl AsFd,
    mut offset: u64,
    pieces: &[P],
) -> Result<(), Errno> {
    let mut slices: Vec<IoSlice<'_>> =
        pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| IoSlice::new(piece)).collect();
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        match write_at(&file, offset, rest) {
            // A target that cannot seek (a pipe, a terminal) accepts bytes in order, and they arrive in
            // order.
            Err(Errno::SPIPE) => {
                let now = rest.get(..MAX_SLICES).unwrap_or(rest);
                let written = retry_on_intr(|| writev(&file, now))?;
                IoSlice::advance_slices(&mut rest, written);
            }
            Ok(0) => return Err(Errno::NOSPC),
            written => {
                let written = written?;
                offset += written as u64;
                IoSlice::advance_slices(&mut rest, written);
            }
        }
    }
    Ok(())
}

/// Like [`write_all_at`], but leaves out blocks of zeros: for a part of the file that contains no data yet.
/// If `pieces` end with such a block, returns the minimum length that the file must get; see [`lengthen`].
///
/// # Errors
/// As [`write_all_at`].
pub fn write_sparse_at<P: Deref<Target = [u8]>>(
    file: impl AsFd,
    offset: u64,
    pieces: &[P],
) -> Result<Option<u64>, Errno> {
    let mut at = offset;
    let mut skipped = false;
    for piece in pieces {
        let mut rest: &[u8] = piece;
        while !rest.is_empty() {
            // The piece up to the next block boundary.
            let len = (BLOCK - (at % BLOCK as u64) as usize).min(rest.len());
            let (block, behind) = rest.split_at(len);
            skipped = block.iter().all(|&byte| byte == 0);
            if !skipped {
                write_all_at(&file, at, &[block])?;
            }
            at += len as u64;
            rest = behind;
        }
    }
    Ok(skipped.then_some(at))
}

/// Makes a file `end` bytes long, if it is shorter.
///
/// # Errors
/// The error of fstat(2) or ftruncate(2).
pub fn lengthen(file: impl AsFd, end: u64) -> Result<(), Errno> {
    if fs::fstat(&file)?.st_size.cast_unsigned() < end {
        fs::ftruncate(&file, end)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn many_pieces_are_written_and_read_back() {
        let file = tempfile::tempfile().unwrap();
        let pieces: Vec<Vec<u8>> =
            (0..3000_u32).map(|n| n.to_be_bytes()[..n as usize % 5].to_vec()).collect();
        write_all_at(&file, 7, &pieces).unwrap();
        let all = pieces.concat();
        let mut back = vec![0; all.len() + 10];
        assert_eq!(read_full(&file, 7, &mut back).unwrap(), all.len());
        assert_eq!(&back[..all.len()], all);
    }

    #[test]
    fn pipes_take_bytes_in_order() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        write_all_at(&writer, 1000, &[&b"one"[..], b"two"]).unwrap();
        let mut got = [0; 8];
        assert_eq!(rustix::io::read(&reader, &mut got).unwrap(), 6);
        assert_eq!(&got[..6], b"onetwo");
    }

    #[test]
    fn blocks_of_zeros_are_left_out() {
        let file = tempfile::tempfile().unwrap();
        let mut data = vec![0; 64 * BLOCK];
        data[32 * BLOCK] = 1;
        let end = write_sparse_at(&file, 0, &[&data[..]]).unwrap();
        assert_eq!(end, Some(data.len() as u64));
        lengthen(&file, data.len() as u64).unwrap();
        lengthen(&file, 1).unwrap();
        let mut back = vec![9; data.len()];
        assert_eq!(read_full(&file, 0, &mut back).unwrap(), data.len());
        assert!(back == data);
        assert!(file.metadata().unwrap().blocks() * 512 < data.len() as u64);
    }
}
