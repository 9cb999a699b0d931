//! How a file ends: attributes, CLOSE, its final name, and the report of it.

use crate::end::{Change, Done, Fault, FaultKind, Kind, Op, Outcome};
use crate::engine::Engine;
use crate::event::CopiedKind;
use crate::options::Verify;
use crate::table::Key;
use crate::task::File;
use crate::task::preserve::Preserved;
use crate::task::proof::ProofStage;
use crate::task::source_check::CLOSE_BEHIND;
use crate::task::state::{Closed, Closing, Copying, Stage, State};
use crate::token::{FileStep, Side, Token, Whose};
use crate::wording::Deed;
use crate::{Direction, Event, local, wording};

impl Engine {
    /// Sets what is to be set on the target and closes both ends. `known_sum`: over a copy that is complete already.
    pub(in crate::engine) fn close_file(&mut self, key: Key, known_sum: Option<Vec<u8>>) {
        if self.tasks.files.get(key).is_none_or(|file| file.state.is_closed()) {
            return;
        }
        let copying = |file: &File| matches!(file.state, State::Copying(_));
        let good = |file: &File| !file.faults.failed && copying(file) && file.handles.target.is_some();
        if self.tasks.files.get(key).is_some_and(good)
            && (self.tasks.look_at_source(key, &mut self.ends, self.plan.direction)
                || self.preserve(Whose::File(key)))
        {
            return;
        }
        self.checks().end_sum(key);
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let mut closed = Closed { examined: file.state.is_examined(), ..Closed::default() };
        let mode_mask = match &file.state {
            State::Copying(Copying { preserved, source_after }) => {
                closed.changed = source_after.changed();
                preserved.mode_mask(0o777)
            }
            _ => Preserved::Todo.mode_mask(0o777),
        };
        self.flow.expect(&mut file.queued.ahead, 0);
        self.flow.let_go(file.relay.held.values().flatten().map(|piece| piece.len() as u64).sum());
        file.relay.held.clear();
        let (source, target) = (file.handles.source.take(), file.handles.target.take());
        let (direction, failed) = (self.plan.direction, file.faults.failed);
        let foreign = self.ends.target.as_ref().is_some_and(|target| !target.is_ours());
        let change = file.change_on_close(direction, self.options.preserve, mode_mask, foreign);
        // The cut on the handle is enough, also when its answer is a failure.
        closed.cut = failed;
        if !failed {
            closed.size = file.copied_size(direction);
            closed.sum = file.sums.content.finish(closed.size).or(known_sum);
        }
        file.state = State::Closing(Closing { closed, change, refused: None });
        let existed = file.place.growing().is_none() || file.place.continued;
        let size_after_wanted = foreign && existed && !failed;
        let set = target.is_some() && change != Change::default();
        let close = target.is_some();
        let sync = close && !failed && self.options.sync;
        file.outstanding += u32::from(set) + u32::from(sync) + u32::from(close);
        if let Some(handle) = source
            && self.ends.source.is_some()
        {
            self.ends.start(Side::Source, Op::Close(handle), Token::Nothing);
        }
        if let Some(handle) = target {
            if set {
                let op = Op::SetHandle { handle: &handle, change };
                self.ends.start(Side::Target, op, Token::File(key, FileStep::Attributes));
            }
            if sync {
                self.ends.start(Side::Target, Op::Sync(&handle), Token::File(key, FileStep::Sync));
            }
            if close {
                if let Some(file) =
                    self.tasks.files.get_mut(key).filter(|file| file.place.growing().is_some())
                {
                    file.place.lock = local::keep_lock(&handle);
                }
                self.ends.start(Side::Target, Op::Close(handle), Token::File(key, FileStep::CloseTarget));
            }
            if size_after_wanted && let Some(file) = self.tasks.files.get_mut(key) {
                file.outstanding += 1;
                let path = file.written_path().to_vec();
                self.ends.start(Side::Target, Op::Stat(&path), Token::File(key, FileStep::SizeAfter));
            }
        }
        if !set && !close {
            self.move_on(key);
        }
    }

    /// No answer about a closed file is awaited: takes the next step, or ends it.
    pub(super) fn after_close(&mut self, key: Key) {
        let Some(stage) = self.tasks.files.get(key).and_then(|file| file.state.stage()) else { return };
        let goes_on = (stage < Stage::VerifyingAll && self.checks().prove(key, ProofStage::Written))
            || (stage <= Stage::Placing && self.part_files().finish(key))
            || (stage < Stage::VerifyingNamed && self.checks().prove(key, ProofStage::Named))
            || (stage < Stage::Cutting && self.cut_later(key));
        if !goes_on {
            self.end_file(key);
        }
    }

    /// Cuts a file that failed after its CLOSE to what is known to be right. False where there is nothing to cut.
    fn cut_later(&mut self, key: Key) -> bool {
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        if !file.wants_cut(self.plan.direction) || !file.state.advance(State::Cutting) {
            return false;
        }
        file.outstanding += 1;
        let change = Change { size: Some(file.taken.good_end()), ..Change::default() };
        let target = file.written_path().to_vec();
        let token = Token::File(key, FileStep::Repair);
        self.ends.start(Side::Target, Op::SetPath { path: &target, change }, token);
        true
    }

    /// Takes the file out of the table, and reports how its copy went.
    fn end_file(&mut self, key: Key) {
        if let Some(item) = self.take_again(key) {
            return self.copy_item(item);
        }
        let misplaced = |file: &File| !file.faults.failed && file.place.growing().is_some();
        if self.tasks.files.get(key).is_some_and(misplaced) {
            // A fault of this engine must never be reported as a copy.
            let fault =
                Fault::other("the copy is complete under the name of its part file, and was not renamed");
            self.file_failed(key, Deed::PlaceTarget, &fault);
        }
        let Some(mut file) = self.tasks.remove(key) else { return };
        let closed = std::mem::take(&mut file.state).into_closed().unwrap_or_default();
        let Closed { size, sum, .. } = closed;
        let flaw = closed.flaw.filter(|_| !file.faults.failed);
        let changed = closed.changed.filter(|_| !file.faults.failed);
        let unverified = changed.is_some() && self.options.verify == Verify::Always;
        let (item, leads, failed) = (file.item.clone(), file.item.leads, file.faults.failed);
        if !failed {
            self.report.summary.verified += u64::from(file.place.compared && changed.is_none());
            self.report.summary.files += 1;
            self.report.summary.kept += file.taken.kept;
            self.report.event(Event::FileDone {
                id: file.id,
                name: crate::base_name(&file.item.source).to_vec(),
                size: file.taken.kept + file.taken.confirmed,
                kept: file.taken.kept,
                started: file.started,
            });
            if flaw.is_some() || unverified {
                self.report.missed(self.tree.path_of(&item));
            } else {
                self.report.copied(&self.plan.target, &item, size, CopiedKind::File(sum.clone()));
            }
        }
        if let Some(flaw) = flaw {
            self.report.fail(flaw);
        }
        if let Some(changed) = changed {
            let text = wording::source_changed(&item.source, changed);
            if unverified {
                self.report.fail(text);
            } else {
                self.report.event(Event::Changed { source: item.source.clone(), text });
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
        let deed = match self.plan.direction {
            Direction::Download => Deed::ReadSource,
            Direction::Upload | Direction::Relay => Deed::WriteTarget,
        };
        self.file_failed(key, deed, &Fault { kind: FaultKind::Lost, text: reason.to_owned() });
        self.move_on(key);
    }

    /// Servers may not set attributes of open files and yet by their path, or not at all and yet take files.
    pub(super) fn attributes_refused(&mut self, key: Key, fault: Fault) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if file.faults.failed || fault.kind == FaultKind::Lost || self.plan.direction == Direction::Download {
            return self.file_failed(key, Deed::FinishTarget, &fault);
        }
        let State::Closing(closing) = &mut file.state else { return };
        closing.refused = Some(fault);
        let change = closing.change;
        file.outstanding += 1;
        let target = file.written_path().to_vec();
        let token = Token::File(key, FileStep::AttributesByPath);
        self.ends.start(Side::Target, Op::SetPath { path: &target, change }, token);
    }

    pub(super) fn attributes_by_path(&mut self, key: Key, outcome: &Outcome) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        match outcome {
            Ok(_) => {
                if let State::Closing(closing) = &mut file.state {
                    closing.refused = None;
                }
            }
            Err(fault) if fault.kind == FaultKind::Lost => self.file_failed(key, Deed::FinishTarget, fault),
            Err(_) => {
                file.outstanding += 1;
                let target = file.written_path().to_vec();
                self.ends.start(Side::Target, Op::Stat(&target), Token::File(key, FileStep::SizeCheck));
            }
        }
    }

    /// Nothing can be set. What has the right size, or none (a device, a pipe), gets its name all the same; attributes that
    /// were to be preserved are reported.
    pub(super) fn size_answer(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let State::Closing(closing) = &mut file.state else { return };
        let (Some(fault), size) = (closing.refused.take(), closing.closed.size) else { return };
        let (special, right) = match outcome {
            Ok(Done::Info(info)) => (info.kind == Kind::Special, info.size == Some(size)),
            _ => (false, false),
        };
        if !right && !special {
            self.file_failed(key, Deed::FinishTarget, &fault);
        } else if self.options.preserve && !special {
            let text = wording::failed(self.plan.direction, Deed::FinishTarget, &file.item.target, &fault);
            closing.closed.flaw = Some(text);
        }
    }

    /// Goes on to the next state when nothing of this one is left.
    pub(in crate::engine) fn move_on(&mut self, key: Key) {
        let behind = if self.ends.waits_for_writes() { 0 } else { CLOSE_BEHIND };
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let quiet = file.outstanding == 0 && file.requests.in_flight() == 0 && file.requests.lent == 0;
        if file.state.is_closed() {
            if quiet {
                self.after_close(key);
            }
        } else if file.faults.failed {
            if quiet && !self.spread().close(key) {
                self.close_file(key, None);
            }
        } else if matches!(file.state, State::Copying(_))
            && file.data_sent()
            && (file.requests.writes == 0 || file.requests.next <= behind)
        {
            // A hole that was passed over may be ahead of what is confirmed.
            if file.taken.has_gap() && file.requests.writes == 0 {
                let fault = Fault::other("file changed while it was being copied");
                self.file_failed(key, Deed::ReadSource, &fault);
                return self.move_on(key);
            }
            if !self.spread().close(key) {
                self.close_file(key, None);
            }
        }
    }
}
