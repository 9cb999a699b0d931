//! Handles replies to requests for file data, and results of file work that was handed out.

use super::DataRequests;
use crate::Direction;
use crate::channels::unfinished::Rest;
use crate::end::{Done, Fault, FaultKind, Outcome, fault_of};
use crate::file_work::{FileWork, Job, SendOutcome, Sent, WriteWork, Written};
use crate::table::Key;
use crate::token::{FileStep, Side, Token};
use crate::wording::shrank;

impl DataRequests<'_> {
    /// Takes in the answer to a READ. Returns why the source cannot be read.
    pub(crate) fn on_answer(
        &mut self,
        key: Key,
        offset: u64,
        len: u32,
        outcome: Outcome,
    ) -> Result<(), Fault> {
        let Some(file) = self.tasks.files.get_mut(key) else { return Ok(()) };
        file.requests.reads -= 1;
        self.flow.in_flight.answered(len.into());
        if file.faults.failed {
            return Ok(());
        }
        // Its last READ may ask for a byte behind the end.
        let behind = if file.requests.to_eof {
            0
        } else {
            (offset + u64::from(len)).saturating_sub(file.requests.size)
        };
        let most = len - (behind as u32).min(len);
        match outcome {
            // It asked for the byte behind the end alone: a server that has none says so in any way.
            Ok(Done::Data(data)) if most == 0 => file.requests.longer |= !data.is_empty(),
            Err(Fault { kind: FaultKind::Eof | FaultKind::Other, .. }) if most == 0 => {}
            Ok(Done::Data(data)) if data.len() > len as usize => {
                return Err(Fault::other("the server sent more data than it was asked for"));
            }
            Ok(Done::Data(mut data)) if !data.is_empty() => {
                file.requests.longer |= data.len() > most as usize;
                data.truncate(most as usize);
                let got = data.len() as u32;
                if got < most {
                    self.tasks.ask_again(key, offset + u64::from(got), len - got);
                } else {
                    file.requests.full_reads = file.requests.full_reads.saturating_add(1);
                }
                self.flow.on_data(u64::from(got), self.progress.now);
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
        if self.direction == Direction::Relay {
            self.flow.in_flight.hold(len);
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

    /// Takes in the answer to a WRITE. Returns how many bytes it confirms, or why it was refused.
    pub(crate) fn confirmed(
        &mut self,
        key: Key,
        offset: u64,
        len: u32,
        outcome: Outcome,
    ) -> Result<u64, Fault> {
        let Some(file) = self.tasks.files.get_mut(key) else { return Ok(0) };
        file.requests.writes -= 1;
        if self.direction == Direction::Upload {
            self.flow.in_flight.answered(len.into());
        }
        outcome?;
        let len = u64::from(len);
        self.flow.grow(len);
        file.taken.confirm(offset, len);
        self.leftovers.note_progress(file);
        Ok(len)
    }

    /// Takes in what became of bytes that were to be written to a file of this host. Returns how many are
    /// written, or why they are not.
    pub(crate) fn stored(&mut self, done: Written) -> Result<u64, Fault> {
        let Written { key, offset, len, outcome, sum, content, .. } = done;
        let Some(file) = self.tasks.files.get_mut(key) else { return Ok(0) };
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
                self.leftovers.note_progress(file);
                Ok(len)
            }
            Some(Err(fault)) => Err(fault),
            _ => Ok(0),
        }
    }

    /// Takes in what became of bytes that were to be sent. Returns true while the channel may take more, or
    /// why the source cannot be read.
    pub(crate) fn sent(&mut self, sent: Sent) -> Result<bool, Fault> {
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
            return Ok(false);
        }
        let moved = match outcome {
            SendOutcome::Begun(new, len) => {
                if len < new.want {
                    let step = FileStep::Write { offset: new.offset, len: len as u32 };
                    if let Some(remote) = self.ends.on_channel(Side::Target, channel) {
                        remote.expect(new.id, Token::File(key, step));
                    }
                    self.flow.in_flight.shorten((new.want - len) as u64);
                    self.take_range_back(key, new.offset + len as u64, new.want - len);
                }
                Ok(true)
            }
            SendOutcome::NotBegun(new, fault) => {
                self.not_begun(&mut write, channel, new);
                fault.or_else(|| self.source_ended(key, new.offset)).map_or(Ok(true), Err)
            }
            SendOutcome::NoSpace(new) => {
                self.not_begun(&mut write, channel, new);
                self.take_range_back(key, new.offset, new.want);
                Ok(false)
            }
            SendOutcome::Continued(sent) => Ok(sent > 0),
            SendOutcome::Short(fault) => {
                let size = self.tasks.files.get(key).map_or(0, |file| file.requests.size);
                let fault = fault.unwrap_or_else(|| shrank(write.offset, size));
                write.rest = Rest::Zeros;
                if let Some(file) = self.tasks.files.get_mut(key) {
                    file.taken.real_end = file.taken.real_end.min(write.offset);
                }
                Err(fault)
            }
        };
        self.step_done(channel, write);
        moved
    }

    /// The source has no bytes at `offset`. Returns why that is wrong, where it is.
    pub(super) fn source_ended(&mut self, key: Key, offset: u64) -> Option<Fault> {
        let file = self.tasks.files.get_mut(key)?;
        file.requests.complete = true;
        (!file.requests.to_eof).then(|| shrank(offset, file.requests.size))
    }
}
