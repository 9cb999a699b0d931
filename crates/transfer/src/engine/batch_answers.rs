//! What became of a batch: its files are done, fail, or go the ordinary way.

use crate::batch::placing::Placer;
use crate::batch::{Batch, Small};
use crate::end::{Change, Done, Fault, FaultKind, Got, Kind, Op, Outcome, fault_of};
use crate::engine::Engine;
use crate::event::CopiedKind;
use crate::options::Verify;
use crate::table::Key;
use crate::target_facts::NotKept;
use crate::wording::{Deed, shrank};
use crate::{Direction, Event, local, wording};
use lh_sftp::batch::PutStep;
use std::time::Instant;

impl Engine {
    /// The channel that a batch was sent on is gone: its files go the ordinary way.
    pub(in crate::engine) fn batch_lost(&mut self, key: Key) {
        let Some(batch) = self.batches.under_way.remove(key) else { return };
        self.flow.answered(batch.bytes);
        for small in batch.files {
            self.begin_alone(small);
        }
    }

    pub(in crate::engine) fn batch_answer(&mut self, key: Key, outcome: Outcome) {
        let Some(batch) = self.batches.under_way.remove(key) else { return };
        self.flow.batch_took(self.progress.now.saturating_duration_since(batch.started));
        self.flow.answered(batch.bytes);
        match outcome {
            Ok(Done::Put(failures)) => {
                self.flow.grow(batch.bytes);
                self.files_put(batch, failures);
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
                    self.small_failed(small, deed, &fault);
                }
            }
        }
    }

    /// A file of a batch goes the ordinary way after all.
    pub(in crate::engine) fn begin_alone(&mut self, mut small: Small) {
        small.item.alone = true;
        // It is counted again when it is opened.
        self.progress.bytes_found = self.progress.bytes_found.saturating_sub(small.size);
        self.begin_ordinary_file(small.id, small.item);
    }

    pub(in crate::engine) fn files_put(&mut self, batch: Batch, failures: Vec<(usize, PutStep, Fault)>) {
        let mut failures = failures.into_iter().peekable();
        for (index, small) in batch.files.into_iter().enumerate() {
            let mut failed = None;
            while let Some((_, step, fault)) = failures.next_if(|(failed, ..)| *failed == index) {
                match step {
                    PutStep::Open => failed = Some((Deed::OpenTarget, fault)),
                    PutStep::Write => failed = Some((Deed::WriteTarget, fault)),
                    PutStep::Attributes => failed = Some((Deed::FinishTarget, fault)),
                    PutStep::Owner => self.ends.facts.report_not_kept_at(
                        NotKept::Owner,
                        &small.item.target,
                        &fault,
                        &mut self.report,
                    ),
                    PutStep::Xattrs => self.ends.facts.report_not_kept_at(
                        NotKept::Xattrs,
                        &small.item.target,
                        &fault,
                        &mut self.report,
                    ),
                }
            }
            match failed {
                None => {
                    self.report.summary.bytes += small.size;
                    self.small_done(small, batch.started);
                }
                Some((deed, fault)) => self.small_failed(small, deed, &fault),
            }
        }
    }

    pub(in crate::engine) fn files_got(&mut self, batch: Batch, got: Vec<Result<Got, Fault>>) {
        let both = batch.files.into_iter().zip(got);
        let files: Vec<_> = both.filter_map(|(small, got)| self.file_got(small, got)).collect();
        let mut made =
            self.placer().make_unnamed(files.iter().map(|(small, got)| (&small.item, got))).into_iter();
        for (small, got) in files {
            let made = self.placer().made_unnamed(&small.item, made.next());
            match made.unwrap_or_else(|| self.write_small(&small, &got)) {
                Ok(()) => {
                    self.report.summary.bytes += small.size;
                    self.small_done(small, batch.started);
                }
                Err((deed, fault)) => self.small_failed(small, deed, &fault),
            }
        }
    }

    /// A file that came whole; others go their way.
    pub(in crate::engine) fn file_got(
        &mut self,
        mut small: Small,
        got: Result<Got, Fault>,
    ) -> Option<(Small, Got)> {
        let got = match got {
            Ok(got) => got,
            Err(fault) => {
                self.small_failed(small, Deed::OpenSource, &fault);
                return None;
            }
        };
        let len = got.data.len() as u64;
        if !got.whole {
            // Longer than it was when it was listed, or written to while it was read: copied by itself, its changes are reported.
            if small.size > 0 {
                small.item.info = got.info;
            }
            self.begin_alone(small);
            return None;
        }
        if self.options.keep.xattr_kinds() != 0 && got.xattrs.is_none() {
            // More than fits here.
            self.begin_alone(small);
            return None;
        }
        // One that is shorter than it was when it was listed is whole all the same.
        if small.size > 0 && len < small.size && got.info.size != Some(len) {
            let fault = shrank(len, small.size);
            self.small_failed(small, Deed::ReadSource, &fault);
            return None;
        }
        self.progress.bytes_found = self.progress.bytes_found.saturating_sub(small.size) + len;
        small.item.info = got.info;
        small.size = len;
        small.sum = self.options.sums.map(|algorithm| algorithm.sum(&got.data));
        Some((small, got))
    }

    pub(in crate::engine) const fn placer(&mut self) -> Placer<'_> {
        Placer { options: &self.options, facts: &mut self.ends.facts, report: &mut self.report }
    }

    /// A whole file onto this host, overwritten in place as any other.
    pub(in crate::engine) fn write_small(&mut self, small: &Small, got: &Got) -> Result<(), (Deed, Fault)> {
        if self.options.atomic
            && let Some(done) = self.placer().place_small(&small.item, got)
        {
            return done;
        }
        self.remove_link(&small.item);
        let mode = got.info.mode.unwrap_or(0o666) & 0o777;
        let opened = local::perform(Op::OpenWrite { path: &small.item.target, mode });
        let (handle, old) = match opened {
            Ok(Done::Opened(handle, info)) => (handle, info),
            outcome => return Err((Deed::OpenTarget, fault_of(outcome))),
        };
        let data = std::slice::from_ref(&got.data);
        local::write_all_at(&handle, 0, data).map_err(|fault| (Deed::WriteTarget, fault))?;
        let old_size = old.filter(|old| old.kind == Kind::File).and_then(|old| old.size);
        let change = Change {
            size: old_size.filter(|&old| old > small.size).map(|_| small.size),
            ..self.placer().finish_small(&handle, &small.item, got, None)
        };
        if change != Change::default() {
            local::perform(Op::SetHandle { handle: &handle, change })
                .map_err(|fault| (Deed::FinishTarget, fault))?;
        }
        local::perform(Op::Close(handle)).map_err(|fault| (Deed::CloseTarget, fault))?;
        Ok(())
    }

    pub(in crate::engine) fn small_done(&mut self, small: Small, started: Instant) {
        self.leftovers.note_done(&small.item, small.size, small.sum.as_deref());
        if self.options.atomic && self.options.verify != Verify::Off {
            self.report.summary.verified += 1;
        }
        self.report.summary.files += 1;
        let name = crate::base_name(&small.item.source).to_vec();
        self.report.event(Event::FileDone { id: small.id, name, size: small.size, kept: 0, started });
        self.report.copied(&self.plan.target, &small.item, small.size, CopiedKind::File(small.sum));
        self.child_finished(small.item.parent);
    }

    pub(in crate::engine) fn small_failed(&mut self, small: Small, deed: Deed, fault: &Fault) {
        // A lost connection is reported once.
        if fault.kind != FaultKind::Lost {
            let of_source = matches!(deed, Deed::OpenSource | Deed::ReadSource);
            let path = if of_source { &small.item.source } else { &small.item.target };
            let text = wording::failed(self.plan.direction, deed, path, fault);
            if !self.tree.reported_by_dir(small.item.parent, &text) {
                self.report.fail(text);
            }
            self.report.missed(self.tree.path_of(&small.item));
        }
        self.child_finished(small.item.parent);
    }
}
