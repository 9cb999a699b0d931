//! What became of a batch: its files are done, fail, or go the ordinary way.

use std::time::Instant;

use crate::batch::Batch;
use crate::batch::placing::{Placer, SmallEnd};
use crate::end::{Done, Fault, FaultKind, Got, Outcome, fault_of};
use crate::engine::Engine;
use crate::event::CopiedKind;
use crate::options::Verify;
use crate::table::Key;
use crate::wording::Deed;
use crate::{Direction, Event, wording};

impl Engine {
    /// The channel that a batch was sent on is gone: its files go the ordinary way.
    pub(in crate::engine) fn batch_lost(&mut self, key: Key) {
        let Some(batch) = self.batches.ended(key) else { return };
        self.flow.answered(batch.bytes);
        for small in batch.files {
            self.small_ended(SmallEnd::Alone(small), batch.started);
        }
    }

    pub(in crate::engine) fn batch_answer(&mut self, key: Key, outcome: Outcome) {
        let Some(batch) = self.batches.ended(key) else { return };
        self.flow.batch_took(self.progress.now.saturating_duration_since(batch.started));
        self.flow.answered(batch.bytes);
        match outcome {
            Ok(Done::Put(failures)) => {
                self.flow.grow(batch.bytes);
                let mut failures = failures.into_iter().peekable();
                for (index, small) in batch.files.into_iter().enumerate() {
                    let of_this = std::iter::from_fn(|| failures.next_if(|(failed, ..)| *failed == index));
                    let end = self.placer().was_put(small, of_this.map(|(_, step, fault)| (step, fault)));
                    self.small_ended(end, batch.started);
                }
            }
            Ok(Done::Got(got)) if got.len() == batch.files.len() => {
                self.flow.grow(batch.bytes);
                self.files_got(batch, got);
            }
            outcome => {
                // Nothing is known of any of them.
                let fault = fault_of(outcome);
                let deed = match self.plan.direction {
                    Direction::Upload => Deed::WriteTarget,
                    _ => Deed::ReadSource,
                };
                for small in batch.files {
                    self.small_ended(SmallEnd::Failed(small, deed, fault.clone()), batch.started);
                }
            }
        }
    }

    /// Places the files that came whole; others go their way first.
    fn files_got(&mut self, batch: Batch, got: Vec<Result<Got, Fault>>) {
        let mut files = Vec::new();
        for (small, got) in batch.files.into_iter().zip(got) {
            let listed = small.size;
            match self.placer().came(small, got) {
                Ok((small, got)) => {
                    self.progress.bytes_found = self.progress.bytes_found.saturating_sub(listed) + small.size;
                    files.push((small, got));
                }
                Err(end) => self.small_ended(*end, batch.started),
            }
        }
        let mut made =
            self.placer().make_unnamed(files.iter().map(|(small, got)| (&small.item, got))).into_iter();
        for (small, got) in files {
            let end = self.placer().place(small, &got, made.next());
            self.small_ended(end, batch.started);
        }
    }

    const fn placer(&mut self) -> Placer<'_> {
        Placer { options: &self.options, facts: &mut self.ends.facts, report: &mut self.report }
    }

    /// Reports how a file of a batch has ended, or begins it by itself.
    fn small_ended(&mut self, end: SmallEnd, started: Instant) {
        let parent = match end {
            SmallEnd::Alone(mut small) => {
                small.item.alone = true;
                // It is counted again when it is opened.
                self.progress.bytes_found = self.progress.bytes_found.saturating_sub(small.size);
                return self.begin_ordinary_file(small.id, small.item);
            }
            SmallEnd::Done(small) => {
                self.leftovers.note_done(&small.item, small.size, small.sum.as_deref());
                if self.options.atomic && self.options.verify != Verify::Off {
                    self.report.summary.verified += 1;
                }
                self.report.summary.bytes += small.size;
                self.report.summary.files += 1;
                let name = crate::base_name(&small.item.source).to_vec();
                self.report.event(Event::FileDone { id: small.id, name, size: small.size, kept: 0, started });
                self.report.copied(&self.plan.target, &small.item, small.size, CopiedKind::File(small.sum));
                small.item.parent
            }
            SmallEnd::Failed(small, deed, fault) => {
                // A lost connection is reported once.
                if fault.kind != FaultKind::Lost {
                    let of_source = matches!(deed, Deed::OpenSource | Deed::ReadSource);
                    let path = if of_source { &small.item.source } else { &small.item.target };
                    let text = wording::failed(self.plan.direction, deed, path, &fault);
                    if !self.tree.reported_by_dir(small.item.parent, &text) {
                        self.report.fail(text);
                    }
                    self.report.missed(self.tree.path_of(&small.item));
                }
                small.item.parent
            }
        };
        self.child_finished(parent);
    }
}
