//! Ends a file: attributes, CLOSE, its final name, and the report.

use crate::end::{Fault, FaultKind};
use crate::engine::schedule::Scheduler;
use crate::event::CopiedKind;
use crate::options::Verify;
use crate::table::Key;
use crate::task::File;
use crate::task::proof::ProofStage;
use crate::task::source_check::CLOSE_BEHIND;
use crate::task::state::{Closed, Stage, State};
use crate::token::AttributeSubject;
use crate::wording::FailedStep;
use crate::{Direction, Event, wording};

impl Scheduler<'_> {
    /// Sets what is to be set on the target and closes both ends. `known_sum`: over a copy that is complete
    /// already.
    pub(in crate::engine) fn close_file(&mut self, key: Key, known_sum: Option<Vec<u8>>) {
        if self.parts.tasks.files.get(key).is_none_or(|file| file.state.is_closed()) {
            return;
        }
        let copying = |file: &File| matches!(file.state, State::Copying(_));
        let good = |file: &File| !file.faults.failed && copying(file) && file.handles.target.is_some();
        if self.parts.tasks.files.get(key).is_some_and(good)
            && (self.parts.tasks.look_at_source(key, &mut self.parts.ends, self.parts.plan.direction)
                || self.parts.preserving().begin(AttributeSubject::File(key)))
        {
            return;
        }
        self.parts.checks().end_sum(key);
        if self.parts.endings().close(key, known_sum) {
            self.move_on(key);
        }
    }

    /// No answer about a closed file is awaited: takes the next step, or ends it.
    pub(super) fn after_close(&mut self, key: Key) {
        let Some(stage) = self.parts.tasks.files.get(key).and_then(|file| file.state.stage()) else { return };
        let goes_on = (stage < Stage::VerifyingAll && self.parts.checks().prove(key, ProofStage::Written))
            || (stage <= Stage::Placing && self.parts.part_files().finish(key))
            || (stage < Stage::VerifyingNamed && self.parts.checks().prove(key, ProofStage::Named))
            || (stage < Stage::Cutting && self.parts.endings().cut_later(key));
        if !goes_on {
            self.end_file(key);
        }
    }

    /// Takes the file out of the table, and reports how its copy went.
    fn end_file(&mut self, key: Key) {
        if let Some(item) = self.take_again(key) {
            return self.copy_item(item);
        }
        let misplaced = |file: &File| !file.faults.failed && file.place.growing().is_some();
        if self.parts.tasks.files.get(key).is_some_and(misplaced) {
            // A fault of this engine must never be reported as a copy.
            let fault =
                Fault::other("the copy is complete under the name of its part file, and was not renamed");
            self.parts.file_failed(key, FailedStep::PlaceTarget, &fault);
        }
        let Some(mut file) = self.parts.tasks.remove(key) else { return };
        let closed = std::mem::take(&mut file.state).into_closed().unwrap_or_default();
        let Closed { size, sum, .. } = closed;
        let flaw = closed.flaw.filter(|_| !file.faults.failed);
        let changed = closed.changed.filter(|_| !file.faults.failed);
        let unverified = changed.is_some() && self.parts.options.verify == Verify::Always;
        let (item, leads, failed) = (file.item.clone(), file.item.leads, file.faults.failed);
        if !failed {
            self.parts.report.summary.verified += u64::from(file.place.compared && changed.is_none());
            self.parts.report.summary.files += 1;
            self.parts.report.summary.kept += file.taken.kept;
            self.parts.report.event(Event::FileDone {
                id: file.id,
                name: crate::base_name(&file.item.source).to_vec(),
                size: file.taken.kept + file.taken.confirmed,
                kept: file.taken.kept,
                started: file.started,
            });
            if flaw.is_some() || unverified {
                self.parts.report.missed(self.parts.tree.path_of(&item));
            } else {
                self.parts.report.copied(&self.parts.plan.target, &item, size, CopiedKind::File(sum.clone()));
            }
        }
        if let Some(flaw) = flaw {
            self.parts.report.fail_attributes(flaw);
        }
        if let Some(changed) = changed {
            let text = wording::source_changed(&item.source, changed);
            if unverified {
                self.parts.report.blame(&item.source);
                self.parts.report.fail(text);
            } else {
                self.parts.report.event(Event::Changed { source: item.source.clone(), text });
            }
        }
        self.drop_file(file);
        if leads {
            for (id, item) in self.first_name_done(&item, failed, sum) {
                self.begin_ordinary_file(id, item);
            }
        }
    }

    /// The connection to one end is gone. Only files that have begun are named.
    pub(in crate::engine) fn file_lost(&mut self, key: Key, reason: &str) {
        let step = match self.parts.plan.direction {
            Direction::Download => FailedStep::ReadSource,
            Direction::Upload | Direction::Relay => FailedStep::WriteTarget,
        };
        self.parts.file_failed(key, step, &Fault { kind: FaultKind::Lost, text: reason.to_owned() });
        self.move_on(key);
    }

    /// Goes on to the next state when nothing of this one is left.
    pub(in crate::engine) fn move_on(&mut self, key: Key) {
        let behind = if self.parts.ends.waits_for_writes() { 0 } else { CLOSE_BEHIND };
        let Some(file) = self.parts.tasks.files.get_mut(key) else { return };
        let quiet = file.outstanding == 0 && file.requests.in_flight() == 0 && file.requests.lent == 0;
        if file.state.is_closed() {
            if quiet {
                self.after_close(key);
            }
        } else if file.faults.failed {
            if quiet && !self.parts.spread().close(key) {
                self.close_file(key, None);
            }
        } else if matches!(file.state, State::Copying(_))
            && file.data_sent()
            && (file.requests.writes == 0 || file.requests.next <= behind)
        {
            // A hole that was passed over may be ahead of what is confirmed.
            if file.taken.has_gap() && file.requests.writes == 0 {
                let fault = Fault::other("file changed while it was being copied");
                self.parts.file_failed(key, FailedStep::ReadSource, &fault);
                return self.move_on(key);
            }
            if !self.parts.spread().close(key) {
                self.close_file(key, None);
            }
        }
    }
}
