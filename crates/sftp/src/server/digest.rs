//! Digests of files, computed in steps: reading a large file takes seconds, and the session has other
//! channels to serve.

use std::io::{self, IoSliceMut};

use lh_crypto::{Hash, Hasher, Md5Hasher};
use twox_hash::XxHash3_128;

use crate::fs::File;
use crate::protocol::extension::CHECK_XXH3;

/// Bytes digested in one step: some milliseconds of work.
const STEP: usize = 8 * 1024 * 1024;

/// Bytes read at a time: fits the processor's cache.
const CHUNK: usize = 256 * 1024;

/// Digests of a range of a file, block by block.
pub(super) struct Digesting {
    algorithm: Algorithm,
    state: State,
    offset: u64,
    /// Bytes left of the range.
    left: u64,
    /// Length of a block in bytes, and bytes left of the current block.
    block: u64,
    block_left: u64,
    digests: Vec<u8>,
}

/// A digest of `check-file`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Md5,
    Xxh3,
    Other(&'static str, Hash),
}

enum State {
    Md5(Md5Hasher),
    Xxh3(Box<XxHash3_128>),
    Other(Hasher),
}

impl Algorithm {
    /// Returns the first known algorithm of the names in `list`.
    pub(super) fn choose(list: &[u8]) -> Option<Self> {
        list.split(|&byte| byte == b',').find_map(|name| match name {
            b"md5" => Some(Self::Md5),
            name if name == CHECK_XXH3.as_bytes() => Some(Self::Xxh3),
            b"sha1" => Some(Self::Other("sha1", Hash::Sha1)),
            b"sha256" => Some(Self::Other("sha256", Hash::Sha256)),
            b"sha384" => Some(Self::Other("sha384", Hash::Sha384)),
            b"sha512" => Some(Self::Other("sha512", Hash::Sha512)),
            _ => None,
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Xxh3 => CHECK_XXH3,
            Self::Other(name, _) => name,
        }
    }

    pub(super) const fn len(self) -> u64 {
        match self {
            Self::Md5 | Self::Xxh3 => 16,
            Self::Other(_, hash) => hash.output_len() as u64,
        }
    }

    fn start(self) -> State {
        match self {
            Self::Md5 => State::Md5(Md5Hasher::default()),
            Self::Xxh3 => State::Xxh3(Box::new(XxHash3_128::with_seed(0))),
            Self::Other(_, hash) => State::Other(hash.start()),
        }
    }
}

impl State {
    fn update(&mut self, data: &[u8]) {
        match self {
            Self::Md5(state) => state.update(data),
            Self::Xxh3(state) => state.write(data),
            Self::Other(state) => state.update(data),
        }
    }

    fn finish(self, out: &mut Vec<u8>) {
        match self {
            Self::Md5(state) => out.extend_from_slice(&state.finish()),
            Self::Xxh3(state) => out.extend_from_slice(&state.finish_128().to_be_bytes()),
            Self::Other(state) => out.extend_from_slice(state.finish().as_ref()),
        }
    }
}

impl Digesting {
    /// Starts digests of `left` bytes from `offset` on, one for each `block` bytes.
    pub(super) fn new(algorithm: Algorithm, offset: u64, left: u64, block: u64) -> Self {
        let state = algorithm.start();
        Self { algorithm, state, offset, left, block, block_left: block, digests: Vec::new() }
    }

    /// Returns the name of the algorithm, and the digests so far.
    pub(super) fn digests(&self) -> (&'static str, &[u8]) {
        (self.algorithm.name(), &self.digests)
    }

    /// Digests up to [`STEP`] bytes. Returns true at the end of the range.
    pub(super) fn step(&mut self, file: &mut dyn File) -> io::Result<bool> {
        let mut buffer = self.buffer();
        let mut done = 0;
        while self.left > 0 && done < STEP {
            let want = self.left.min(self.block_left).min(CHUNK as u64) as usize;
            let room = buffer.get_mut(..want).unwrap_or_default();
            let got = file.read_at(self.offset, &mut [IoSliceMut::new(room)])?;
            if got == 0 {
                // The file was truncated meanwhile: there are no more bytes to digest.
                self.left = 0;
                break;
            }
            let got = got.min(want);
            self.state.update(buffer.get(..got).unwrap_or_default());
            done += got;
            self.offset += got as u64;
            self.left -= got as u64;
            self.block_left -= got as u64;
            if self.block_left == 0 && self.left > 0 {
                self.end_block();
            }
        }
        if self.left > 0 {
            return Ok(false);
        }
        self.end_block();
        Ok(true)
    }

    /// No longer than what is left: to clear a whole chunk takes several times as long as the digest of a
    /// small file.
    fn buffer(&self) -> Vec<u8> {
        vec![0; self.left.min(CHUNK as u64) as usize]
    }

    fn end_block(&mut self) {
        std::mem::replace(&mut self.state, self.algorithm.start()).finish(&mut self.digests);
        self.block_left = self.block;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_no_longer_than_the_range() {
        for (left, expected) in [(0, 0), (1000, 1000), (1 << 40, CHUNK)] {
            assert_eq!(Digesting::new(Algorithm::Md5, 0, left, u64::MAX).buffer().len(), expected);
        }
    }
}
