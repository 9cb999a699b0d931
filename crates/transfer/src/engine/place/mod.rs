//! Under which name a file grows, and its way to the final one.
//!
//! A file appears under its final name when it is complete: until then it has a name of ours beside it, which says of
//! which source in which state it is a copy. So what an attempt that was cut off has left is found again, is continued
//! when it is right ([`super::check`]), and never taken for the copy of something else.
//!
//! Nothing may be different afterwards from what `scp` leaves: what is no plain file, has several names, another owner
//! that cannot be kept, or stands in a directory that takes no new names, is written in place. The mode of a
//! file that is replaced is kept, and a symbolic link leads to where the file is replaced. So is everything
//! where the server permits no rename, or make files under names of ours.
//!
//! | module | what |
//! |---|---|
//! | [`found`] | what is there already: whether to go on with it |
//! | [`finish`] | the final name, and the notes in the journal |

mod finish;
mod found;

use crate::end::{AsFound, Change, Done, FaultKind, Op, Outcome, fault_of, path_of};
use crate::engine::Engine;
use crate::local;
use crate::table::Key;
use crate::task::place::{part_name, random_tag, tag_of};
use crate::task::probe::{AtTarget, OpeningPart, Probe, Replacing};
use crate::task::state::{Opening, State};
use crate::token::{FileStep, PlaceStep, Side, Token};
use crate::tree::Dir;
use crate::wording::Deed;

impl Engine {
    /// The source is open: where does the copy go?
    pub(super) fn find_place(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if !self.options.atomic || file.item.target.ends_with(b"/") {
            return self.open_target(key);
        }
        // What has the final name is to be continued; for an upload the server was asked before.
        let goes_on = self.options.resume && !file.item.fresh;
        if goes_on && local::perform(Op::Lstat(&file.item.target)).is_ok() {
            return self.open_target(key);
        }
        self.find_place_of_new(key);
    }

    /// Like [`Self::find_place`], where nothing under the final name is to be continued.
    pub(super) fn find_place_of_new(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        if !self.options.atomic || file.item.in_place || self.ends.facts.renames_barred {
            return self.open_target(key);
        }
        let target = file.item.target.clone();
        let tag = tag_of(&file.item);
        file.place.tag = tag;
        file.place.part = Some(part_name(&target, &tag.unwrap_or_default()));
        if file.item.parent.and_then(|key| self.tree.dirs.get(key)).is_some_and(Dir::created) {
            return self.open_part(key, AsFound::Fresh, OpeningPart::default());
        }
        self.look(key, &target, Probe::default());
    }

    /// Asks what is under the final name, and what under ours beside it.
    fn look(&mut self, key: Key, target: &[u8], probe: Probe) {
        let likely = self.tasks.files.get(key).is_some_and(|file| self.leftovers.may_be_done(&file.item));
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let followed = probe.followed;
        file.state = State::Probing(Probe { part_unasked: likely, ..probe });
        file.place.asked_at = Some(self.progress.now);
        self.ask_place(key, target, PlaceStep::Target { followed });
        if !likely {
            self.look_at_part(key);
        }
    }

    pub(super) fn look_at_part(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let Some(probe) = file.state.probe_mut() else { return };
        probe.part_unasked = false;
        let followed = probe.followed;
        if let Some(part) = file.place.part.clone() {
            self.ask_place(key, &part, PlaceStep::Part { followed });
        }
    }

    fn ask_place(&mut self, key: Key, path: &[u8], step: PlaceStep) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let Some(probe) = file.state.probe_mut() else { return };
        probe.unanswered += 1;
        file.outstanding += 1;
        self.ends.start(Side::Target, Op::Lstat(path), Token::File(key, FileStep::Place(step)));
    }

    pub(super) fn place_answer(&mut self, key: Key, step: PlaceStep, outcome: Outcome) {
        if let Some(asked) = self.tasks.files.get_mut(key).and_then(|file| file.place.asked_at.take()) {
            self.note_round_trip(Side::Target, asked);
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let lost = matches!(&outcome, Err(fault) if fault.kind == FaultKind::Lost);
        if lost && !file.state.has_begun() {
            return self.file_failed(key, Deed::OpenTarget, &fault_of(outcome));
        }
        match step {
            PlaceStep::Target { followed } | PlaceStep::Part { followed } => {
                self.probe_answer(key, step, followed, &outcome);
            }
            PlaceStep::Link => match path_of(outcome) {
                Ok(target) if !file.faults.failed => {
                    let tag = file.place.tag.unwrap_or_default();
                    file.place.part = Some(part_name(&target, &tag));
                    file.item.target = target.clone();
                    self.look(key, &target, Probe::behind_link());
                }
                // It leads nowhere yet: writing through it makes the file there.
                _ => self.open_target(key),
            },
            PlaceStep::Open => self.part_opened(key, outcome),
            PlaceStep::Adopt => self.adopted(key, outcome),
            PlaceStep::Owner => match outcome {
                Ok(Done::Info(info)) => self.owner_known(key, info.ids),
                _ => self.owner_known(key, None),
            },
            PlaceStep::Give => match outcome {
                Ok(_) => self.look_at_found(key),
                Err(_) => self.give_up_part(key),
            },
            PlaceStep::Rename | PlaceStep::RemoveOld | PlaceStep::RenameNew => {
                self.rename_answer(key, step, outcome);
            }
            PlaceStep::Backup => match outcome {
                Ok(_) => file.item.backed_up = Some(true),
                outcome => self.file_failed(key, Deed::PlaceTarget, &fault_of(outcome)),
            },
            PlaceStep::Discard => {
                if let Some(part) = file.place.part.clone() {
                    self.leftovers.removal_answered(&part, &outcome, &mut self.report);
                }
            }
        }
    }

    /// The end says what is under one of the two names.
    fn probe_answer(&mut self, key: Key, step: PlaceStep, followed: bool, outcome: &Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let replacing = Replacing {
            names: self.options.tree_sync.is_some(),
            links: self.options.follows_no_links(&file.item),
        };
        // The link was followed meanwhile: nothing depends on what is beside it.
        let Some(probe) = file.state.probe_mut().filter(|probe| probe.followed == followed) else { return };
        probe.unanswered -= 1;
        if let PlaceStep::Target { .. } = step {
            if let Ok(Done::Info(info)) = outcome
                && let Some(fault) = info.refused_there()
            {
                return self.file_failed(key, Deed::OpenTarget, &fault);
            }
            match probe.on_target(outcome, replacing) {
                AtTarget::Replaced(info) => file.place.old = Some(info),
                AtTarget::Link => return self.follow_target(key),
                AtTarget::Free | AtTarget::InPlace => {}
            }
        } else {
            probe.on_part(outcome);
        }
        if file.state.probe().is_some_and(|probe| probe.unanswered == 0) {
            self.place_known(key);
        }
    }

    /// The target is a symbolic link: the file it leads to is what is replaced.
    fn follow_target(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        // The answer about our name beside the link does not matter any more; it is still to come.
        file.state = State::Probing(Probe::behind_link());
        file.outstanding += 1;
        let target = file.item.target.clone();
        self.ends.start(
            Side::Target,
            Op::RealPath(&target),
            Token::File(key, FileStep::Place(PlaceStep::Link)),
        );
    }

    fn open_part(&mut self, key: Key, as_found: AsFound, opening: OpeningPart) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let Some(part) = file.place.part.clone() else { return self.open_target(key) };
        file.state = State::Opening(Opening::Part(opening));
        match &mut self.leftovers.journal {
            Some(journal) if opening.random => {
                // The next attempt finds this name nowhere else.
                journal.begin(&file.item.target, &part);
                journal.flush();
            }
            Some(journal) if file.place.tag.is_some() => journal.note_opening(&file.item.target),
            _ => {}
        }
        file.place.asked_at = Some(self.progress.now);
        file.outstanding += 1;
        let mode = file.place.old.as_ref().and_then(|old| old.mode).or(file.item.info.mode).unwrap_or(0o666);
        let op = Op::OpenPart { path: &part, mode, as_found };
        self.ends.start(Side::Target, op, Token::File(key, FileStep::Place(PlaceStep::Open)));
    }

    fn part_opened(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let State::Opening(Opening::Part(opening)) = file.state else { return };
        let (handle, info) = match outcome {
            Ok(Done::Opened(handle, info)) => (handle, info),
            outcome => {
                let fault = fault_of(outcome);
                if fault.is_full() {
                    // In place it would cost what is there.
                    return self.file_failed(key, Deed::OpenTarget, &fault);
                }
                let busy = fault.kind == FaultKind::Busy;
                if !opening.random && (busy || opening.left_over || opening.removed) {
                    if opening.left_over
                        && !busy
                        && let Some(part) = &file.place.part
                    {
                        // Not to be written to by us any more: out of the way.
                        self.ends.start(Side::Target, Op::Remove(part), Token::Nothing);
                    }
                    // Another name, which nothing can go on with later. The journal notes it: what is left of it is
                    // removed with the next attempt.
                    file.place.part = Some(part_name(&file.item.target, &random_tag()));
                    let opening = OpeningPart { random: true, ..OpeningPart::default() };
                    return self.open_part(key, AsFound::Fresh, opening);
                }
                self.report_in_place(key, &fault);
                return self.open_target(key);
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
            (None, _) => self.look_at_found(key),
            (Some(_), Some(info)) => self.owner_known(key, info.ids),
            (Some(_), None) => {
                file.outstanding += 1;
                let token = Token::File(key, FileStep::Place(PlaceStep::Owner));
                self.ends.start(Side::Target, Op::Fstat(&handle), token);
            }
        }
    }

    fn owner_known(&mut self, key: Key, ids: Option<(u32, u32)>) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let wanted = file.place.old.as_ref().and_then(|old| old.ids);
        if ids == wanted || file.faults.failed {
            return self.look_at_found(key);
        }
        let Some(handle) = file.handles.target.clone() else { return };
        file.outstanding += 1;
        let change = Change { ids: wanted, ..Change::default() };
        let token = Token::File(key, FileStep::Place(PlaceStep::Give));
        self.ends.start(Side::Target, Op::SetHandle { handle: &handle, change }, token);
    }

    /// The owner cannot be kept: in place, then.
    fn give_up_part(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.place.there = false;
        file.place.tag = None;
        let (handle, part) = (file.handles.target.take(), file.place.part.take());
        if let Some(handle) = handle {
            self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
        }
        if let Some(part) = part {
            self.leftovers.remove_part(part, &mut self.ends);
        }
        self.open_target(key);
    }
}
