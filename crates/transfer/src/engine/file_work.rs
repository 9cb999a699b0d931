//! Work on the bytes of files that is done without the engine: handing it out, and acting on what came of it.
//!
//! What is handed out counts as done as far as what goes next is concerned: the cursor of the file is behind
//! it. Its file is neither closed nor forgotten before the work is back.

use std::collections::VecDeque;
use std::time::Duration;

use lh_wire::Output;

use crate::data_requests::Step;
use crate::engine::Engine;
use crate::file_work::{FileWork, FileWorkDone, Job, JobDone, SendWork, Sent};
use crate::token::Side;
use crate::wording::FailedStep;

impl Engine {
    /// Work on files that can be carried out now. Give what comes of it back ([`Engine::file_work_done`]).
    pub fn next_file_work(&mut self) -> Option<FileWork> {
        let work = self.parts.ends.file_work.pop_front()?;
        Some(self.begin_file_work(work))
    }

    pub(crate) fn has_file_work(&self) -> bool {
        !self.parts.ends.file_work.is_empty()
    }

    /// All the work that there is, for one thread to begin piece by piece, in this order.
    pub(crate) fn take_file_work(&mut self) -> VecDeque<FileWork> {
        std::mem::take(&mut self.parts.ends.file_work)
    }

    /// A thread is about to carry this out.
    pub(crate) fn begin_file_work(&mut self, mut work: FileWork) -> FileWork {
        if let Job::Write(work) = &mut work.0
            && let Some(file) = self.parts.tasks.files.get_mut(work.key)
            && !file.faults.failed
        {
            work.target.clone_from(&file.handles.target);
            work.content = file.sums.content.lend(work.offset, work.data.len() as u64);
        }
        self.parts.progress.begin_file_work();
        work
    }

    /// Acts on what came of a piece of work.
    pub fn file_work_done(&mut self, done: FileWorkDone) {
        match done.0 {
            JobDone::Write(written) => {
                self.parts.progress.end_file_work(written.took);
                let key = written.key;
                match self.parts.data_requests().stored(*written) {
                    Ok(len) => self.parts.report.summary.bytes += len,
                    Err(fault) => self.parts.file_failed(key, FailedStep::WriteTarget, &fault),
                }
                self.scheduler().move_on(key);
            }
            JobDone::Operation(token, outcome) => {
                self.parts.progress.end_file_work(Duration::ZERO);
                self.parts.ends.answer((token, outcome));
            }
        }
        self.scheduler().handle_answers();
        if self.parts.is_finished() {
            self.parts.keep_journal();
        }
    }

    /// Carries out all work on files here and now.
    pub(super) fn do_file_work(&mut self) {
        while let Some(work) = self.next_file_work() {
            self.file_work_done(work.carry_out());
        }
    }

    /// Asks for or sends the data of the end `side` on channel number `channel`, up to where bytes of a file
    /// are to be read for that.
    pub(super) fn move_data(&mut self, side: Side, channel: usize, out: &mut dyn Output) -> Option<SendWork> {
        let mut passed = 0;
        loop {
            self.scheduler().handle_answers();
            match self.parts.data_requests().next_request(side, channel, &mut passed, out) {
                Step::Done => {}
                Step::Moved(key) => self.scheduler().move_on(key),
                Step::Failed(key, fault) => self.parts.file_failed(key, FailedStep::ReadSource, &fault),
                Step::Idle => {
                    // Files finish while data move: let the next ones be opened meanwhile.
                    let before = self.parts.tasks.sending.len();
                    self.scheduler().begin_work();
                    self.scheduler().handle_answers();
                    if self.parts.tasks.sending.len() <= before {
                        return None;
                    }
                }
                Step::Blocked => return None,
                Step::Read(work) => return Some(work),
            }
        }
    }

    /// Acts on what became of bytes that were to be sent. False when the channel takes nothing more now.
    pub fn sent(&mut self, sent: Sent) -> bool {
        let key = sent.write.key;
        let moved = self.parts.data_requests().sent(sent).unwrap_or_else(|fault| {
            self.parts.file_failed(key, FailedStep::ReadSource, &fault);
            true
        });
        self.scheduler().move_on(key);
        moved
    }
}
