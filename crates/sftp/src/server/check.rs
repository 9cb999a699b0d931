//! `check-file`: digests of files without a shell (draft-ietf-secsh-filexfer-extensions-00, section 3), and our running sums.
//!
//! Reading a large file takes seconds, and the session has other channels to look after, so it is done in steps, as
//! copies are.

use std::io::{self, IoSliceMut};

use bytes::Bytes;
use lh_crypto::{Hash, Hasher, Md5Hasher};
use lh_wire::Writer;
use twox_hash::XxHash3_128;

use super::Server;
use super::handles::OpenFile;
use crate::fs::File;
use crate::protocol::{MAX_DATA, extension::CHECK_XXH3};
use crate::{PieceSum, RunningSum, StatusCode, SumStep};

/// Bytes digested before others get their turn: some milliseconds of work.
const STEP: usize = 8 * 1024 * 1024;

/// Read in one go: fits the processor's cache.
const CHUNK: usize = 256 * 1024;

/// The draft's lower bound for blocks.
const LEAST_BLOCK: u32 = 256;

/// What is to be digested.
pub(super) enum Checked {
    /// A handle of the client's.
    Handle(Vec<u8>),
    /// A file opened for this.
    File(Box<dyn File>),
}

/// A request under way.
pub(super) struct CheckJob {
    id: u32,
    checked: Checked,
    digesting: Digesting,
}

struct Digesting {
    algorithm: Algorithm,
    state: State,
    offset: u64,
    /// Bytes left of the range.
    left: u64,
    /// Bytes of a block, and those left of the present one.
    block: u64,
    block_left: u64,
    digests: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
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
    /// The first of the names in `list` that is known.
    fn choose(list: &[u8]) -> Option<Self> {
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

    const fn len(self) -> u64 {
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

impl Server {
    pub(super) fn start_check(
        &mut self,
        id: u32,
        mut checked: Checked,
        algorithms: &[u8],
        offset: u64,
        len: u64,
        block: u32,
    ) {
        let Some(algorithm) = Algorithm::choose(algorithms) else {
            return self.reply_text(id, StatusCode::FAILURE, "No digest of these is known");
        };
        if block > 0 && block < LEAST_BLOCK {
            return self.reply_text(id, StatusCode::BAD_MESSAGE, "Blocks must have 256 bytes or more");
        }
        let attrs = match &mut checked {
            Checked::File(file) => file.attrs(),
            Checked::Handle(handle) => match self.handles.file(handle) {
                Some(open) => open.file.attrs(),
                None => return self.reply_bad_handle(id),
            },
        };
        let size = match attrs {
            Ok(attrs) => attrs.size.unwrap_or(0),
            Err(error) => return self.reply_error(id, &error),
        };
        let Some(behind) = size.checked_sub(offset) else { return self.reply_status(id, StatusCode::EOF) };
        let left = if len == 0 { behind } else { len.min(behind) };
        let block = if block == 0 { u64::MAX } else { block.into() };
        if left.div_ceil(block).saturating_mul(algorithm.len()) > MAX_DATA as u64 {
            return self.reply_text(id, StatusCode::FAILURE, "Too many blocks for one reply");
        }
        let digesting = Digesting {
            algorithm,
            state: algorithm.start(),
            offset,
            left,
            block,
            block_left: block,
            digests: Vec::new(),
        };
        self.check = Some(CheckJob { id, checked, digesting });
    }

    /// Does one step; when it was the last, answers and forgets the job.
    pub(super) fn continue_check(&mut self) {
        let Some(mut job) = self.check.take() else { return };
        let outcome = match &mut job.checked {
            Checked::File(file) => job.digesting.step(&mut **file),
            Checked::Handle(handle) => match self.handles.file(handle) {
                Some(open) => job.digesting.step(&mut *open.file),
                None => return self.reply_bad_handle(job.id),
            },
        };
        match outcome {
            Ok(false) => self.check = Some(job),
            Ok(true) => {
                let digesting = &job.digesting;
                self.reply().extended(job.id, |out| {
                    out.put_string(b"check-file");
                    out.put_string(digesting.algorithm.name().as_bytes());
                    out.put_bytes(&digesting.digests);
                });
            }
            Err(error) => self.reply_error(job.id, &error),
        }
    }

    pub(super) fn serve_running_sum(&mut self, id: u32, handle: &[u8], step: SumStep) {
        let Some(open) = self.handles.file(handle) else { return self.reply_bad_handle(id) };
        if let SumStep::Begin(read_back) = step {
            (open.sum, open.read_back) = (Some(RunningSum::default()), read_back);
            return self.reply_status(id, StatusCode::OK);
        }
        match open.sum.take() {
            Some(sum) => self.reply().extended(id, |out| sum.write(out)),
            None => self.reply_text(id, StatusCode::FAILURE, "What was written cannot be read back"),
        }
    }
}

impl Digesting {
    /// Digests up to [`STEP`] bytes; true when there are no more.
    fn step(&mut self, file: &mut dyn File) -> io::Result<bool> {
        let mut buffer = vec![0; CHUNK];
        let mut done = 0;
        while self.left > 0 && done < STEP {
            let want = self.left.min(self.block_left).min(CHUNK as u64) as usize;
            let room = buffer.get_mut(..want).unwrap_or_default();
            let got = file.read_at(self.offset, &mut [IoSliceMut::new(room)])?;
            if got == 0 {
                // Somebody is cutting the file: what there was has been digested.
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

    fn end_block(&mut self) {
        std::mem::replace(&mut self.state, self.algorithm.start()).finish(&mut self.digests);
        self.block_left = self.block;
    }
}

impl OpenFile {
    /// Sums up the `len` bytes of `data` that were just written at `offset`, as the client wants it. A handle that cannot be read
    /// loses its sum: nothing is claimed that was not seen.
    pub(super) fn sum_written(&mut self, offset: u64, data: &[Bytes], len: usize) {
        let Some(sum) = &mut self.sum else { return };
        let file = &mut self.file;
        let read = |at: u64, room: &mut [u8]| file.read_at(at, &mut [IoSliceMut::new(room)]);
        match PieceSum::of_written(self.read_back, offset, data, len, read) {
            Ok(piece) if piece.len() == len as u64 => sum.finish_piece(piece),
            Ok(_) | Err(_) => self.sum = None,
        }
    }
}
