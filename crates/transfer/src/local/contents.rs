//! Contents of open files: reading, writing, comparing.

use std::io::IoSliceMut;

use lh_crypto::Hash;
use lh_sftp::{PieceSum, ReadBack};
use lh_sftp_fs::open_file;

use super::facts::local;
use crate::end::{DIGEST_BLOCK, Done, Fault, Handle, Outcome};

/// Returns true where the file has `data` and nothing else, as it is read back.
pub(crate) fn holds(handle: &Handle, data: &[u8]) -> Result<bool, Fault> {
    let mut back = vec![0; data.len() + 1];
    let got = read_full(handle, 0, &mut back)?;
    Ok(back.get(..got) == Some(data))
}

pub(super) fn digests(handle: &Handle, offset: u64, len: u64) -> Outcome {
    let mut all = Vec::new();
    let mut block = digest_buffer(len);
    let end = offset.saturating_add(len);
    let mut at = offset;
    while at < end {
        let want = (end - at).min(u64::from(DIGEST_BLOCK)) as usize;
        let got = read_full(handle, at, &mut block[..want])?;
        if got == 0 {
            break;
        }
        all.extend_from_slice(Hash::Sha256.digest(&[&block[..got]]).as_ref());
        at += got as u64;
        if got < want {
            break;
        }
    }
    Ok(Done::Digests(all))
}

/// No longer than the range: to clear a whole block takes several times as long as the digest of a small
/// file.
fn digest_buffer(len: u64) -> Vec<u8> {
    vec![0; len.min(u64::from(DIGEST_BLOCK)) as usize]
}

pub(super) fn peek(handle: &Handle, offset: u64, len: u32) -> Outcome {
    let mut buffer = vec![0; len as usize];
    let got = read_full(handle, offset, &mut buffer)?;
    buffer.truncate(got);
    Ok(Done::Data(buffer.into()))
}

/// Reads until `buffer` is full or the file ends.
fn read_full(handle: &Handle, offset: u64, buffer: &mut [u8]) -> Result<usize, Fault> {
    Ok(open_file::read_full(local(handle)?, offset, buffer)?)
}

/// The sum over `data`, which was just written at `offset`; `read_back` says how much of it is read back.
pub(crate) fn sum_written(
    handle: &Handle,
    offset: u64,
    data: &[bytes::Bytes],
    read_back: ReadBack,
) -> Result<PieceSum, Fault> {
    let read = |at: u64, buffer: &mut [u8]| read_full(handle, at, buffer);
    let len = data.iter().map(bytes::Bytes::len).sum();
    PieceSum::of_written(read_back, offset, data, len, read)
}

/// preadv(2) at `offset`; 0 at the end of the file.
pub(crate) fn read_at(handle: &Handle, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Fault> {
    Ok(open_file::read_at(local(handle)?, offset, buffers)?)
}

/// Like [`open_file::write_sparse_at`].
pub(crate) fn write_sparse_at(
    handle: &Handle,
    offset: u64,
    pieces: &[bytes::Bytes],
) -> Result<Option<u64>, Fault> {
    Ok(open_file::write_sparse_at(local(handle)?, offset, pieces)?)
}

/// Makes a file `end` bytes long, if it is shorter.
pub(crate) fn lengthen(handle: &Handle, end: u64) -> Result<(), Fault> {
    Ok(open_file::lengthen(local(handle)?, end)?)
}

/// Writes all of `pieces` from `offset` on.
pub(crate) fn write_all_at(handle: &Handle, offset: u64, pieces: &[bytes::Bytes]) -> Result<(), Fault> {
    Ok(open_file::write_all_at(local(handle)?, offset, pieces)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_buffer_is_no_longer_than_the_range() {
        for (len, expected) in [(0, 0), (1000, 1000), (u64::MAX, DIGEST_BLOCK as usize)] {
            assert_eq!(digest_buffer(len).len(), expected);
        }
    }
}
