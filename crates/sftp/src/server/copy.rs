//! `copy-data`: copies between two open files, without sending the bytes over the network.
//!
//! A copy may take minutes, and the session has other channels to serve, so it is done in steps. Later
//! requests wait until it ends, as in sftp-server.

use super::jobs::CopyJob;
use super::state::Server;
use crate::StatusCode;
use crate::fs::status_of;

/// Bytes copied in one step: some milliseconds of work.
const STEP: usize = 4 * 1024 * 1024;

impl Server {
    pub(super) fn start_copy(
        &mut self,
        id: u32,
        from: &[u8],
        offset: u64,
        len: u64,
        to: &[u8],
        to_offset: u64,
    ) {
        let Some((source, target)) = self.handles.two_files(from, to) else {
            // This includes the same handle given twice.
            self.reply_bad_handle(id);
            return;
        };
        // Copying a file onto itself may never end.
        match (source.file.identity(), target.file.identity()) {
            (Ok(a), Ok(b)) if a == b => {
                self.reply_text(id, StatusCode::FAILURE, "Source and target are the same file");
                return;
            }
            (Err(error), _) | (_, Err(error)) => {
                self.reply_error(id, &error);
                return;
            }
            _ => {}
        }
        self.jobs.copy = Some(CopyJob {
            id,
            from: from.to_vec(),
            offset,
            to: to.to_vec(),
            to_offset,
            left: (len > 0).then_some(len),
        });
    }

    /// Does one step. The last one replies and ends the job.
    pub(super) fn continue_copy(&mut self) {
        let Some(job) = &mut self.jobs.copy else { return };
        let id = job.id;
        let Some((source, target)) = self.handles.two_files(&job.from, &job.to) else {
            self.jobs.copy = None;
            self.reply_bad_handle(id);
            return;
        };
        let want = job.left.map_or(STEP, |left| usize::try_from(left).map_or(STEP, |left| left.min(STEP)));
        let mut done = 0;
        let outcome = loop {
            if done == want {
                break if job.left == Some(0) { Some(Ok(())) } else { None };
            }
            match source.file.copy_to(job.offset, &mut *target.file, job.to_offset, want - done) {
                // The source ends before the range does. sftp-server also reports success then.
                Ok(0) => break Some(Ok(())),
                Ok(n) => {
                    let n = n.min(want - done);
                    source.did_read(job.offset, n);
                    target.did_write(job.to_offset, n);
                    done += n;
                    job.offset = job.offset.saturating_add(n as u64);
                    job.to_offset = job.to_offset.saturating_add(n as u64);
                    job.left = job.left.map(|left| left.saturating_sub(n as u64));
                }
                Err(error) => {
                    target.failed(status_of(&error));
                    break Some(Err(error));
                }
            }
        };
        if let Some(outcome) = outcome {
            self.jobs.copy = None;
            self.reply_outcome(id, &outcome);
        }
    }
}
