//! Gives a file its final name, or removes what is under ours, and notes both in the journal.

use crate::Event;
use crate::end::{Fault, FaultKind, Op, Outcome};
use crate::item::BackupState;
use crate::local;
use crate::names::display_name;
use crate::place::{PartFiles, PlaceNext};
use crate::sync::backup::Replaced;
use crate::table::Key;
use crate::task::ending::PartEnd;
use crate::task::state::State;
use crate::token::{FileStep, PlaceStep, Side, Token};
use crate::wording::FailedStep;

impl PartFiles<'_> {
    /// Everything is written and closed: gives the file its name, or clears up behind a failure. False when
    /// there is nothing (more) to do.
    pub(crate) fn finish(&mut self, key: Key) -> bool {
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        let (step, part) = match file.part_end() {
            PartEnd::Nothing => return false,
            PartEnd::Rename(part) => (PlaceStep::Rename, part),
            PartEnd::Discard(part) => {
                // Nothing is left to be cut: the final name is that of what was there before.
                file.place.there = false;
                if let Some(closed) = file.state.closed_mut() {
                    closed.cut = true;
                }
                if let Some(journal) = &mut self.leftovers.journal {
                    // It is known until it is gone: where the connection is lost, the next attempt removes
                    // it.
                    journal.advance(&part, 0);
                }
                (PlaceStep::Discard, part)
            }
            PartEnd::Keep { part, good } => {
                if let Some(journal) = &mut self.leftovers.journal {
                    journal.advance(&part, good);
                }
                return false;
            }
        };
        if self.ends.target.as_ref().is_some_and(|remote| remote.lost()) {
            return false;
        }
        file.state.advance(State::Placing);
        file.outstanding += 1;
        let target = file.item.target.clone();
        if matches!(step, PlaceStep::Rename)
            && let Some(lock) = &file.place.lock
            && let Err(fault) = local::expect_named(&part, lock)
        {
            self.ends.answer((Token::File(key, FileStep::Place(step)), Err(fault)));
            return true;
        }
        if matches!(step, PlaceStep::Rename) && file.item.sync.backup == BackupState::Due {
            self.backups.back_up(self.ends, &self.plan.target, target, Replaced::ByFile(key));
            return true;
        }
        let op = match step {
            PlaceStep::Rename => Op::Rename { old: &part, new: &target },
            _ => Op::Remove(&part),
        };
        self.ends.start(Side::Target, op, Token::File(key, FileStep::Place(step)));
        true
    }

    pub(super) fn on_rename(&mut self, key: Key, step: PlaceStep, outcome: Outcome) -> PlaceNext {
        let simple = self.ends.rename_is_simple();
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        // It may have been replaced at the last moment.
        let outcome = match (step, &file.place.lock) {
            (PlaceStep::Rename | PlaceStep::RenameNew, Some(lock)) => {
                outcome.and_then(|done| local::expect_placed(&file.item.target, lock).map(|()| done))
            }
            _ => outcome,
        };
        let forbidden = matches!(&outcome, Err(fault) if fault.is_forbidden());
        match (step, outcome) {
            (PlaceStep::RemoveOld, _) if !forbidden => {
                file.outstanding += 1;
                let token = Token::File(key, FileStep::Place(PlaceStep::RenameNew));
                let op = Op::RenameNew { old: file.written_path(), new: &file.item.target };
                self.ends.start(Side::Target, op, token);
            }
            (_, Ok(_)) => self.placed(key),
            (PlaceStep::Rename, Err(fault))
                if (simple || fault.is_taken())
                    && !matches!(fault.kind, FaultKind::Lost | FaultKind::NotFound)
                    && (!forbidden || file.place.old.is_some()) =>
            {
                // A server that cannot replace: there is a moment without either.
                file.outstanding += 1;
                let token = Token::File(key, FileStep::Place(PlaceStep::RemoveOld));
                self.ends.start(Side::Target, Op::Remove(&file.item.target), token);
            }
            (_, Err(fault)) if forbidden && file.item.sync.backup == BackupState::Unwanted => {
                self.take_back(key, &fault);
            }
            (PlaceStep::Rename, Err(fault))
                if fault.kind == FaultKind::NotFound && !file.item.retry.own_name =>
            {
                self.taken(key);
            }
            (_, Err(fault)) => {
                if file.item.sync.backup == BackupState::Made && fault.kind != FaultKind::Lost {
                    self.backups.restore(self.ends, &self.plan.target, &file.item.target);
                }
                return PlaceNext::Failed(FailedStep::PlaceTarget, fault);
            }
        }
        PlaceNext::Wait
    }

    /// The part file may not be renamed: it is removed, and the file is copied again under the final name.
    fn take_back(&mut self, key: Key, why: &Fault) {
        self.report_in_place(key, why);
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.faults.failed = true;
        file.place.barred = true;
        file.place.there = false;
        // The next attempt is compared anew.
        file.place.compared = false;
        if let Some(part) = file.place.part.take() {
            self.leftovers.remove_part(part, self.ends);
        }
    }

    /// The part file is gone: another copy into the same place has its name too, as a session of a killed
    /// client may that still works, or a host with the same file system. The file is copied again under a
    /// name of its own.
    fn taken(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.faults.failed = true;
        file.place.taken = true;
        file.place.there = false;
        file.place.compared = false;
        let name = display_name(&file.item.target);
        let text = format!("the unfinished file of \"{name}\" was renamed by another copy: copying it again");
        if let (Some(journal), Some(part)) = (&mut self.leftovers.journal, file.place.part.take()) {
            journal.forget(&part);
        }
        self.report.event(Event::Notice { text });
    }

    fn placed(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.place.there = false;
        file.place.placed = true;
        let (Some(journal), Some(part)) = (&mut self.leftovers.journal, &file.place.part) else { return };
        if let Some(tag) = &file.place.tag {
            if let Some(sum) = file.state.closed().and_then(|closed| closed.sum.as_ref()) {
                journal.note_sum(tag, sum);
            }
            journal.finish(tag, part);
        } else {
            journal.forget(part);
        }
    }
}
