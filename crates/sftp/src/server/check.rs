//! `check-file`: digests of files (draft-ietf-secsh-filexfer-extensions-00, section 3), and Longhaul's
//! running sums.

use std::io::IoSliceMut;

use lh_wire::Writer;

use super::digest::{Algorithm, Digesting};
use super::jobs::{CheckJob, Checked};
use super::state::Server;
use crate::protocol::MAX_DATA;
use crate::{RunningSum, StatusCode, SumStep};

const NOT_READ_BACK: &str = "What was written cannot be read back";

/// The draft's smallest block, in bytes.
const LEAST_BLOCK: u32 = 256;

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
        let file = match &mut checked {
            Checked::File(file) => file.as_mut(),
            Checked::Handle(handle) => match self.handles.file(handle) {
                Some(open) => open.file.as_mut(),
                None => return self.reply_bad_handle(id),
            },
        };
        let size = match file.attrs() {
            Ok(attrs) if !attrs.is_file() => {
                return self.reply_text(id, StatusCode::FAILURE, "Not a regular file");
            }
            Ok(attrs) => attrs.size.unwrap_or(0),
            Err(error) => return self.reply_error(id, &error),
        };
        // Files that the kernel makes while they are read, as in /proc, say that they are empty.
        match if size == 0 { file.read_at(0, &mut [IoSliceMut::new(&mut [0])]) } else { Ok(0) } {
            Ok(0) => {}
            Ok(_) => return self.reply_text(id, StatusCode::FAILURE, "The file does not tell its size"),
            Err(error) => return self.reply_error(id, &error),
        }
        let Some(behind) = size.checked_sub(offset) else { return self.reply_status(id, StatusCode::EOF) };
        let left = if len == 0 { behind } else { len.min(behind) };
        let block = if block == 0 { u64::MAX } else { block.into() };
        if left.div_ceil(block).saturating_mul(algorithm.len()) > MAX_DATA as u64 {
            return self.reply_text(id, StatusCode::FAILURE, "Too many blocks for one reply");
        }
        let digesting = Digesting::new(algorithm, offset, left, block);
        self.jobs.check = Some(CheckJob { id, checked, digesting });
    }

    /// Does one step. The last one replies and ends the job.
    pub(super) fn continue_check(&mut self) {
        let Some(mut job) = self.jobs.check.take() else { return };
        let outcome = match &mut job.checked {
            Checked::File(file) => job.digesting.step(&mut **file),
            Checked::Handle(handle) => match self.handles.file(handle) {
                Some(open) => job.digesting.step(&mut *open.file),
                None => return self.reply_bad_handle(job.id),
            },
        };
        match outcome {
            Ok(false) => self.jobs.check = Some(job),
            Ok(true) => {
                let (algorithm, digests) = job.digesting.digests();
                self.reply().extended(job.id, |out| {
                    out.put_string(b"check-file");
                    out.put_string(algorithm.as_bytes());
                    out.put_bytes(digests);
                });
            }
            Err(error) => self.reply_error(job.id, &error),
        }
    }

    pub(super) fn serve_running_sum(&mut self, id: u32, handle: &[u8], step: SumStep) {
        let Some(open) = self.handles.file(handle) else { return self.reply_bad_handle(id) };
        if let SumStep::Begin(read_back) = step {
            if !open.is_found_where_written() {
                return self.reply_text(id, StatusCode::FAILURE, NOT_READ_BACK);
            }
            (open.sum, open.read_back) = (Some(RunningSum::default()), read_back);
            return self.reply_status(id, StatusCode::OK);
        }
        match open.sum.take() {
            Some(sum) => self.reply().extended(id, |out| sum.write(out)),
            None => self.reply_text(id, StatusCode::FAILURE, NOT_READ_BACK),
        }
    }
}
