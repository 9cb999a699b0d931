//! What has come of the source.

use crate::Direction;
use crate::end::{Done, Fault, FaultKind, Outcome, fault_of};
use crate::engine::Engine;
use crate::file_work::{FileWork, Job, WriteWork};
use crate::table::Key;
use crate::wording::shrank;

impl Engine {
    /// Takes in the answer to a READ. Returns why the source cannot be read.
    pub(super) fn read_answer(
        &mut self,
        key: Key,
        offset: u64,
        len: u32,
        outcome: Outcome,
    ) -> Result<(), Fault> {
        let Some(file) = self.tasks.files.get_mut(key) else { return Ok(()) };
        if file.faults.failed {
            return Ok(());
        }
        match outcome {
            Ok(Done::Data(data)) if data.len() > len as usize => {
                return Err(Fault::other("the server sent more data than it was asked for"));
            }
            Ok(Done::Data(data)) if !data.is_empty() => {
                let got = data.len() as u32;
                if got < len {
                    self.tasks.ask_again(key, offset + u64::from(got), len - got);
                } else {
                    file.requests.full_reads = file.requests.full_reads.saturating_add(1);
                }
                self.flow.came(u64::from(got), self.progress.now);
                self.take_data(key, offset, data);
            }
            Ok(Done::Data(_)) | Err(Fault { kind: FaultKind::Eof, .. }) => {
                file.requests.complete = true;
                if !file.requests.to_eof {
                    return Err(shrank(offset, file.requests.size));
                }
            }
            outcome => return Err(fault_of(outcome)),
        }
        Ok(())
    }

    fn take_data(&mut self, key: Key, offset: u64, data: lh_sftp::Data) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let len = data.len() as u64;
        if self.plan.direction == Direction::Relay {
            self.flow.hold(len);
            file.relay.held.insert(offset, data.into_chunks());
            if !std::mem::replace(&mut file.queued.writing, true) {
                self.tasks.writing.push_back(key);
            }
            return;
        }
        if file.handles.target.is_none() {
            return;
        }
        let growth = self.options.keep.sparse.then(|| file.holes.growth.clone());
        let sparse = growth.is_some() && offset >= file.holes.blank_from;
        file.holes.left_out |= sparse;
        file.requests.lent += 1;
        let sum = file.sums.ours.is_some().then(|| self.options.verify.read_back());
        let work = WriteWork { key, offset, data, target: None, growth, sparse, sum, content: None };
        self.ends.file_work.push_back(FileWork(Job::Write(work)));
    }
}
