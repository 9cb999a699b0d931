//! Acts on what the target's end says about the place of a file.

use crate::end::{AsFound, Change, Done, FaultKind, Op, Outcome, fault_of, path_of};
use crate::item::BackupState;
use crate::place::{PartFiles, PlaceNext};
use crate::table::Key;
use crate::target_facts::UncommonOpens;
use crate::task::place::part_name;
use crate::task::probe::{AtTarget, OpeningPart, Probe, Replacing};
use crate::task::state::{Found, Opening, State, Target};
use crate::token::{FileStep, PlaceStep, Side, Token};
use crate::wording::FailedStep;

impl PartFiles<'_> {
    /// Takes an answer about the place of a file.
    pub(crate) fn on_answer(&mut self, key: Key, step: PlaceStep, outcome: Outcome) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        let lost = matches!(&outcome, Err(fault) if fault.kind == FaultKind::Lost);
        if lost && !file.state.has_begun() {
            return PlaceNext::Failed(FailedStep::OpenTarget, fault_of(outcome));
        }
        match step {
            PlaceStep::Target { followed } | PlaceStep::Part { followed } => {
                return self.on_probe(key, step, followed, &outcome);
            }
            PlaceStep::BehindLink => match outcome {
                _ if file.faults.failed => {}
                // OPEN decides it.
                Err(fault) if fault.kind != FaultKind::NotFound => return PlaceNext::InPlace,
                _ => self.resolve_target(key),
            },
            PlaceStep::Link => match path_of(outcome) {
                Ok(target) if !file.faults.failed => {
                    let tag = file.place.tag.unwrap_or_default();
                    file.place.part = Some(part_name(&target, &tag));
                    file.item.target = target.clone();
                    self.probe_names(key, &target, Probe::behind_link());
                }
                // It leads nowhere yet: writing through it makes the file there.
                _ => return PlaceNext::InPlace,
            },
            PlaceStep::Open => return self.on_opened(key, outcome),
            PlaceStep::Adopt => return self.on_adopted(key, outcome),
            PlaceStep::Continue => return self.on_continued(key, outcome),
            PlaceStep::ContinuedSize => return self.on_continued_size(key, &outcome),
            PlaceStep::Owner => {
                let ids = if let Ok(Done::Info(info)) = outcome { info.ids } else { None };
                return self.owner_known(key, ids);
            }
            PlaceStep::Give => match outcome {
                Ok(_) => return self.look_at_found(key),
                Err(_) => return self.give_up_part(key),
            },
            PlaceStep::Rename | PlaceStep::RemoveOld | PlaceStep::RenameNew => {
                return self.on_rename(key, step, outcome);
            }
            PlaceStep::Backup => match outcome {
                Ok(_) => file.item.sync.backup = BackupState::Made,
                outcome => return PlaceNext::Failed(FailedStep::PlaceTarget, fault_of(outcome)),
            },
            PlaceStep::Discard => {
                if let Some(part) = &file.place.part {
                    self.leftovers.removal_answered(part, &outcome, self.report);
                }
            }
        }
        PlaceNext::Wait
    }

    /// The end says what is under one of the two names.
    fn on_probe(&mut self, key: Key, step: PlaceStep, followed: bool, outcome: &Outcome) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        let replacing = Replacing {
            names: self.options.tree_sync.is_some(),
            links: self.options.follows_no_links(&file.item),
        };
        // The link was followed meanwhile: nothing depends on what is beside it.
        let Some(probe) = file.state.probe_mut().filter(|probe| probe.followed == followed) else {
            return PlaceNext::Wait;
        };
        probe.unanswered -= 1;
        if let PlaceStep::Target { .. } = step {
            if let Ok(Done::Info(info)) = outcome
                && let Some(fault) = info.refused_there()
            {
                return PlaceNext::Failed(FailedStep::OpenTarget, fault);
            }
            match probe.on_target(outcome, replacing) {
                AtTarget::Replaced(info) => file.place.old = Some(info),
                AtTarget::Link => {
                    self.follow_target(key);
                    return PlaceNext::Wait;
                }
                AtTarget::Free | AtTarget::InPlace => {}
            }
        } else {
            probe.on_part(outcome);
        }
        if file.state.probe().is_some_and(|probe| probe.unanswered == 0) {
            return self.all_known(key);
        }
        PlaceNext::Wait
    }

    fn on_opened(&mut self, key: Key, outcome: Outcome) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        let State::Opening(Opening::Part(opening)) = file.state else { return PlaceNext::Wait };
        if !opening.emptied {
            self.ends.facts.uncommon_opens.note(&outcome);
        }
        let (handle, info) = match outcome {
            Ok(Done::Opened(handle, info)) => (handle, info),
            outcome => {
                let fault = fault_of(outcome);
                if fault.is_full() {
                    // In place it would cost what is there.
                    return PlaceNext::Failed(FailedStep::OpenTarget, fault);
                }
                let busy = fault.kind == FaultKind::Busy;
                let ignored = fault.kind == FaultKind::Unanswered;
                if ignored && self.ends.facts.uncommon_opens == UncommonOpens::Ignored {
                    if !opening.emptied && !file.faults.failed {
                        // Opens like scp from now on.
                        return self.open_part(key, AsFound::Fresh, OpeningPart::default());
                    }
                    // Opening like scp would empty the file with the final name as well.
                    return PlaceNext::Failed(FailedStep::OpenTarget, fault);
                }
                if !opening.random && !ignored && (busy || opening.left_over || opening.removed) {
                    if opening.left_over
                        && !busy
                        && let Some(part) = &file.place.part
                    {
                        // This copy must not write to the part file any more: removes it.
                        self.ends.start_before_others(key, Op::Remove(part));
                    }
                    // The journal notes the name: what is left under it is removed with the next attempt.
                    return self.open_under_own_name(key);
                }
                self.report_in_place(key, &fault);
                return PlaceNext::InPlace;
            }
        };
        file.handles.target = Some(handle.clone());
        file.place.there = true;
        file.handles.old_size = info.and_then(|info| info.size);
        // A file that is new, or was cut to nothing, holds nothing.
        file.holes.blank_from = file.handles.old_size.or(opening.found).unwrap_or(0);
        if let (Some(journal), Some(part), true) =
            (&mut self.leftovers.journal, &file.place.part, file.place.tag.is_some())
        {
            journal.begin(&file.item.target, part);
        }
        match (file.place.old.as_ref().and_then(|old| old.ids), info) {
            (None, _) => return self.look_at_found(key),
            (Some(_), Some(info)) => return self.owner_known(key, info.ids),
            (Some(_), None) => {
                file.outstanding += 1;
                let token = Token::File(key, FileStep::Place(PlaceStep::Owner));
                self.ends.start(Side::Target, Op::Fstat(&handle), token);
            }
        }
        PlaceNext::Wait
    }

    fn owner_known(&mut self, key: Key, ids: Option<(u32, u32)>) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        let wanted = file.place.old.as_ref().and_then(|old| old.ids);
        if ids == wanted || file.faults.failed {
            return self.look_at_found(key);
        }
        let Some(handle) = &file.handles.target else { return PlaceNext::Wait };
        file.outstanding += 1;
        let change = Change { ids: wanted, ..Change::default() };
        let token = Token::File(key, FileStep::Place(PlaceStep::Give));
        self.ends.start(Side::Target, Op::SetHandle { handle, change }, token);
        PlaceNext::Wait
    }

    /// The owner cannot be kept: in place, then.
    fn give_up_part(&mut self, key: Key) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        file.place.there = false;
        file.place.tag = None;
        let (handle, part) = (file.handles.target.take(), file.place.part.take());
        if let Some(handle) = handle {
            self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
        }
        if let Some(part) = part {
            self.leftovers.remove_part(part, self.ends);
        }
        PlaceNext::InPlace
    }

    fn on_adopted(&mut self, key: Key, outcome: Outcome) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        let Some(probe) = file.state.probe_mut() else { return PlaceNext::Wait };
        let Ok(Done::Opened(handle, _)) = outcome else {
            probe.rejected = true;
            return self.all_known(key);
        };
        let of = Found::Adopted(std::mem::take(probe));
        file.handles.target = Some(handle);
        file.place.continued = true;
        let there = file.place.old.as_ref().and_then(|old| old.size).unwrap_or(0);
        (file.handles.old_size, file.handles.told) = (Some(there), there);
        file.holes.blank_from = there;
        PlaceNext::Check { of, found: there, known: there, whole: self.options.placing.adopt_partial }
    }

    fn look_at_found(&mut self, key: Key) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else {
            return PlaceNext::Wait;
        };
        let State::Opening(Opening::Part(opening)) = &file.state else { return PlaceNext::Wait };
        // Not the size of a file under the final name that was rejected.
        file.handles.told = opening.found.unwrap_or(0);
        match opening.found {
            Some(found) => {
                file.place.continued = true;
                let known = file.place.part.as_deref().map_or(0, |part| self.leftovers.noted(part));
                PlaceNext::Check { of: Found::Part, found, known, whole: false }
            }
            None => {
                file.state = State::Opened(Target::Part);
                PlaceNext::Data
            }
        }
    }
}
