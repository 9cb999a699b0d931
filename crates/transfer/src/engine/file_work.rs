//! Work on the bytes of files that is done without the engine: handing it out, and acting on what came of it.
//!
//! What is handed out counts as done as far as what goes next is concerned: the cursor of the file is behind it. Its
//! file is neither closed nor forgotten before the work is back.

use std::collections::VecDeque;
use std::time::Duration;

use crate::channels::unfinished::Rest;
use crate::engine::Engine;
use crate::file_work::{FileWork, FileWorkDone, Job, JobDone, SendOutcome, Sent, Written};
use crate::token::{FileStep, Side, Token};
use crate::wording::{Deed, shrank};

impl Engine {
    /// Work on files that can be carried out now. Give what comes of it back ([`Engine::file_work_done`]).
    pub fn next_file_work(&mut self) -> Option<FileWork> {
        let work = self.ends.file_work.pop_front()?;
        Some(self.begin_file_work(work))
    }

    pub(crate) fn has_file_work(&self) -> bool {
        !self.ends.file_work.is_empty()
    }

    /// All the work that there is, for one thread to begin piece by piece, in this order.
    pub(crate) fn take_file_work(&mut self) -> VecDeque<FileWork> {
        std::mem::take(&mut self.ends.file_work)
    }

    /// A thread is about to carry this out.
    pub(crate) fn begin_file_work(&mut self, mut work: FileWork) -> FileWork {
        if let Job::Write(work) = &mut work.0
            && let Some(file) = self.tasks.files.get_mut(work.key)
            && !file.faults.failed
        {
            work.target.clone_from(&file.handles.target);
            work.content = file.sums.content.lend(work.offset, work.data.len() as u64);
        }
        self.progress.begin_file_work();
        work
    }

    /// Acts on what came of a piece of work.
    pub fn file_work_done(&mut self, done: FileWorkDone) {
        match done.0 {
            JobDone::Write(written) => {
                self.progress.end_file_work(written.took);
                self.written(*written);
            }
            JobDone::Operation(token, outcome) => {
                self.progress.end_file_work(Duration::ZERO);
                self.ends.answer((token, outcome));
            }
        }
        self.handle_answers();
        if self.is_finished() {
            self.keep_journal();
        }
    }

    /// Carries out all work on files here and now.
    pub(super) fn do_file_work(&mut self) {
        while let Some(work) = self.next_file_work() {
            self.file_work_done(work.carry_out());
        }
    }

    fn written(&mut self, done: Written) {
        let Written { key, offset, len, outcome, sum, content, .. } = done;
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.requests.lent -= 1;
        file.sums.content.give_back(content);
        match outcome {
            Some(Ok(())) if !file.faults.failed => {
                match (&mut file.sums.ours, sum) {
                    (Some(all), Some(piece)) => all.finish_piece(piece),
                    // It cannot be read: nothing is claimed about it.
                    (all, _) => *all = None,
                }
                file.taken.confirm(offset, len);
                self.report.summary.bytes += len;
                self.leftovers.note_progress(file);
            }
            Some(Err(fault)) => self.file_failed(key, Deed::WriteTarget, &fault),
            _ => {}
        }
        self.move_on(key);
    }

    /// Acts on what became of bytes that were to be sent. False when the channel takes nothing more now.
    pub fn sent(&mut self, sent: Sent) -> bool {
        let Sent { channel, mut write, content, outcome, took } = sent;
        self.progress.end_file_work(took);
        let key = write.key;
        if let Some(file) = self.tasks.files.get_mut(key) {
            file.requests.lent -= 1;
            file.sums.content.give_back(content);
        }
        let lost = self.ends.on_channel(Side::Target, channel).is_none_or(|remote| remote.lost());
        if lost {
            // What was to go there has been given to the other channels, or has failed.
            if let Some(file) = self.tasks.files.get_mut(key) {
                file.requests.half_sent = file.requests.half_sent.saturating_sub(1);
            }
            self.move_on(key);
            return false;
        }
        let moved = match outcome {
            SendOutcome::Begun(new, len) => {
                if len < new.want {
                    let step = FileStep::Write { offset: new.offset, len: len as u32 };
                    if let Some(remote) = self.ends.on_channel(Side::Target, channel) {
                        remote.expect(new.id, Token::File(key, step));
                    }
                    self.flow.shorten((new.want - len) as u64);
                    self.data_requests().take_range_back(key, new.offset + len as u64, new.want - len);
                }
                true
            }
            SendOutcome::NotBegun(new, fault) => {
                self.data_requests().not_begun(&mut write, channel, new);
                match fault {
                    Some(fault) => self.file_failed(key, Deed::ReadSource, &fault),
                    None => self.source_ended(key, new.offset),
                }
                true
            }
            SendOutcome::NoSpace(new) => {
                self.data_requests().not_begun(&mut write, channel, new);
                self.data_requests().take_range_back(key, new.offset, new.want);
                false
            }
            SendOutcome::Continued(sent) => sent > 0,
            SendOutcome::Short(fault) => {
                let size = self.tasks.files.get(key).map_or(0, |file| file.requests.size);
                let fault = fault.unwrap_or_else(|| shrank(write.offset, size));
                write.rest = Rest::Zeros;
                if let Some(file) = self.tasks.files.get_mut(key) {
                    file.taken.real_end = file.taken.real_end.min(write.offset);
                }
                self.file_failed(key, Deed::ReadSource, &fault);
                true
            }
        };
        self.data_requests().step_done(channel, write);
        self.move_on(key);
        moved
    }
}
