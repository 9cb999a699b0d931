//! Which files go in batches, when a batch goes, and what has become of its files.

use std::time::Instant;

use lh_sftp::batch::PutStep;

use super::placing::{Placer, SmallEnd};
use super::putting::Put;
use super::{Batch, Batches, Small, may_get, may_put};
use crate::end::{Done, Fault, Got, Outcome, fault_of};
use crate::ends::{Ends, QUEUE_LIMIT};
use crate::flow::{FIRST_REQUESTS, Flow};
use crate::item::Item;
use crate::leftovers::Leftovers;
use crate::progress::Progress;
use crate::remote::Remote;
use crate::report::Reporter;
use crate::table::Key;
use crate::task::queues::Tasks;
use crate::wording::FailedStep;
use crate::{Direction, Options};

/// The files of a copy, as far as they may go in batches.
#[derive(Debug)]
pub(crate) struct SmallFiles<'a> {
    pub(crate) direction: Direction,
    pub(crate) options: &'a Options,
    pub(crate) batches: &'a mut Batches,
    pub(crate) tasks: &'a mut Tasks,
    pub(crate) ends: &'a mut Ends,
    pub(crate) flow: &'a mut Flow,
    pub(crate) progress: &'a mut Progress,
    pub(crate) leftovers: &'a Leftovers,
    pub(crate) report: &'a mut Reporter,
    /// The server handles requests in order: files may follow the MKDIR of their directory at once.
    pub(crate) ordered: bool,
}

/// Result of an OPEN of a small file.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It goes in a batch, and is open no more.
    InBatch,
    /// It goes the ordinary way.
    No,
    /// It cannot be read.
    Failed(Fault),
}

/// Outcomes of the files of a batch, and when it was sent.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) files: Vec<SmallEnd>,
    pub(crate) started: Instant,
}

impl SmallFiles<'_> {
    /// Returns true when more may be put into batches now.
    pub(crate) fn have_room(&mut self) -> bool {
        !self.are_offered()
            || (self.flow.has_room_for_batch(self.batches.bytes(), self.worth_in_flight())
                && self.batches.under_way() < FIRST_REQUESTS
                && self.ends.queue_of(self.ends.idlest_channel()) <= QUEUE_LIMIT)
    }

    /// Upload: takes the file that was opened, if it is one for a batch.
    pub(crate) fn take_opened(&mut self, key: Key) -> Taken {
        if self.direction != Direction::Upload || !self.are_offered() {
            return Taken::No;
        }
        let fits = |file: &crate::task::File| may_put(file, self.options) && self.is_unknown(&file.item);
        let Some(file) = self.tasks.files.get(key).filter(|file| fits(file)) else { return Taken::No };
        if !self.batches.has_space(&file.item.target) {
            self.send();
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return Taken::No };
        let full = self.ends.target.as_ref().is_some_and(Remote::full);
        match self.batches.put(file, self.options, full) {
            Put::Joined { size, sum } => {
                let Some(mut file) = self.tasks.remove(key) else { return Taken::No };
                self.flow.ahead.expect(&mut file.queued.ahead, 0);
                self.add(Small { id: file.id, item: file.item, size, sum });
                Taken::InBatch
            }
            Put::Failed(fault) => Taken::Failed(fault),
            Put::Alone => Taken::No,
            Put::Changed(now) => {
                file.item.info = now;
                file.requests.to_eof = now.size.unwrap_or(0) == 0;
                file.expect_size(now.size.unwrap_or(0), self.flow);
                Taken::No
            }
        }
    }

    /// Download: takes a file whose attributes were listed, if it is one for a batch; gives it back
    /// otherwise.
    pub(crate) fn take_listed(&mut self, item: Item) -> Option<Item> {
        let Some(size) = may_get(&item, self.options) else { return Some(item) };
        if self.direction != Direction::Download || !self.are_offered() || !self.is_unknown(&item) {
            return Some(item);
        }
        self.progress.bytes_found += size;
        let full = self.ends.source.as_ref().is_some_and(Remote::full);
        let len = Batches::answer_len(size, self.options, full);
        if !self.batches.has_answer_space(len) {
            self.send();
        }
        let small = Small { id: self.progress.new_file_id(), item, size, sum: None };
        self.batches.get(&small, len);
        self.add(small);
        None
    }

    fn add(&mut self, small: Small) {
        let worth = self.worth_in_flight();
        if self.batches.add(small, worth) {
            self.send();
        }
    }

    /// Sends what was put together.
    pub(crate) fn send(&mut self) {
        let sent = self.batches.send(self.ends, self.options, self.ordered, self.progress.now);
        if let Some(bytes) = sent {
            self.flow.request(bytes);
        }
    }

    /// The channel that a batch was sent on is gone: its files go the ordinary way.
    pub(crate) fn lost(&mut self, key: Key) -> Option<Ended> {
        let batch = self.batches.ended(key)?;
        self.flow.in_flight.answered(batch.bytes);
        let files = batch.files.into_iter().map(|small| self.alone(small)).collect();
        Some(Ended { files, started: batch.started })
    }

    /// Takes the answer to a batch.
    pub(crate) fn answered(&mut self, key: Key, outcome: Outcome) -> Option<Ended> {
        let batch = self.batches.ended(key)?;
        let started = batch.started;
        self.flow.batch_took(self.progress.now.saturating_duration_since(started));
        self.flow.in_flight.answered(batch.bytes);
        let files = match outcome {
            Ok(Done::Put(failures)) if are_of_batch(&failures, batch.files.len()) => {
                self.flow.grow(batch.bytes);
                let mut failures = failures.into_iter().peekable();
                let end = |(index, small)| {
                    let of_this = std::iter::from_fn(|| failures.next_if(|(failed, ..)| *failed == index));
                    self.placer().on_put_answer(small, of_this.map(|(_, step, fault)| (step, fault)))
                };
                batch.files.into_iter().enumerate().map(end).collect()
            }
            Ok(Done::Got(got)) if got.len() == batch.files.len() => {
                self.flow.grow(batch.bytes);
                self.place(batch, got)
            }
            outcome => {
                // Nothing is known of any of them.
                let fault = fault_of(outcome);
                let step = match self.direction {
                    Direction::Upload => FailedStep::WriteTarget,
                    _ => FailedStep::ReadSource,
                };
                let failed = |small| SmallEnd::Failed(small, step, fault.clone());
                batch.files.into_iter().map(failed).collect()
            }
        };
        Some(Ended { files, started })
    }

    /// Places the files that came whole.
    fn place(&mut self, batch: Batch, got: Vec<Result<Got, Fault>>) -> Vec<SmallEnd> {
        let (mut ends, mut whole) = (Vec::new(), Vec::new());
        for (small, got) in batch.files.into_iter().zip(got) {
            let listed = small.size;
            match self.placer().on_read_answer(small, got) {
                Ok((small, got)) => {
                    self.progress.bytes_found = self.progress.bytes_found.saturating_sub(listed) + small.size;
                    whole.push((small, got));
                }
                Err(end) => ends.push(match *end {
                    SmallEnd::Alone(small) => self.alone(small),
                    end => end,
                }),
            }
        }
        let mut made =
            self.placer().make_unnamed(whole.iter().map(|(small, got)| (&small.item, got))).into_iter();
        for (small, got) in whole {
            ends.push(self.placer().place(small, &got, made.next()));
        }
        ends
    }

    /// The file goes the ordinary way.
    fn alone(&mut self, mut small: Small) -> SmallEnd {
        small.item.alone = true;
        // It is counted again when it is opened.
        self.progress.bytes_found = self.progress.bytes_found.saturating_sub(small.size);
        SmallEnd::Alone(small)
    }

    const fn placer(&mut self) -> Placer<'_> {
        Placer { options: self.options, facts: &mut self.ends.facts, report: self.report }
    }

    fn are_offered(&mut self) -> bool {
        self.batches.are_offered(self.direction, self.options, self.ends)
    }

    /// No attempt before this one has copied the file, or begun to.
    fn is_unknown(&self, item: &Item) -> bool {
        !self.leftovers.may_be_done(item) && !self.leftovers.may_have_part(item)
    }

    /// Bytes of small files that are worth having in flight.
    fn worth_in_flight(&self) -> u64 {
        self.flow.worth_in_flight(self.progress.bytes_found, self.ends.channels_up())
    }
}

/// Returns true where the failures are those of a batch of `count` files, in its order. A failure that cannot
/// be assigned to a file would not be reported.
fn are_of_batch(failures: &[(usize, PutStep, Fault)], count: usize) -> bool {
    failures.is_sorted_by_key(|(index, ..)| *index) && failures.iter().all(|(index, ..)| *index < count)
}

#[cfg(test)]
mod tests;
