//! What is there already, under our name or the final one: whether to go on with it.

use crate::end::{AsFound, Info, Op, Outcome};
use crate::engine::Engine;
use crate::table::Key;
use crate::task::File;
use crate::task::owner;
use crate::task::place::{part_name, random_tag};
use crate::task::probe::{OpeningPart, Probe};
use crate::task::state::State;
use crate::token::{FileStep, OwnerStep, PlaceStep, Side, Token};

impl Engine {
    /// Takes an answer about the user that the target's server runs as.
    pub(in crate::engine) fn user_answer(&mut self, step: OwnerStep, outcome: Outcome) {
        for key in owner::user_answer(step, outcome, &mut self.leftovers, &mut self.ends) {
            if let Some(file) = self.tasks.files.get_mut(key) {
                file.outstanding -= 1;
            }
            self.place_known(key);
            self.move_on(key);
        }
    }

    /// All is known that there was to ask.
    pub(super) fn place_known(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if file.faults.failed {
            return;
        }
        let State::Probing(probe) = &file.state else { return };
        let goes_in_place = probe.in_place || self.ends.facts.renames_barred;
        self.discard_outdated(key);
        if goes_in_place {
            return self.open_target(key);
        }
        if self.is_complete(key) {
            return self.keep_complete(key);
        }
        let part_unasked = |file: &File| file.state.probe().is_some_and(|probe| probe.part_unasked);
        if self.tasks.files.get(key).is_some_and(part_unasked) {
            return self.look_at_part(key);
        }
        if self.adopt_target(key) {
            return;
        }
        let Some(file) = self.tasks.files.get(key) else { return };
        let Some(&Probe { found, left_over, .. }) = file.state.probe() else { return };
        let worth = found.is_some_and(|found| found.size > 0) && file.place.tag.is_some();
        let known = file.place.part.as_deref().map_or(0, |part| self.leftovers.noted(part));
        let wanted = worth && (self.ends.can_digest() || known > 0);
        let there = self.ends.target.is_some();
        let as_found = match found {
            Some(found) if wanted && there => {
                match self.tasks.is_part_ours(key, found.ids, &mut self.leftovers, &mut self.ends) {
                    Some(true) => AsFound::Kept,
                    Some(false) => AsFound::Fresh,
                    // It is being asked.
                    None => return,
                }
            }
            Some(_) if wanted => AsFound::Kept,
            Some(_) if !there => AsFound::Empty,
            _ => AsFound::Fresh,
        };
        let kept = found.filter(|_| as_found == AsFound::Kept).map(|found| found.size);
        let mut opening = OpeningPart { found: kept, left_over, ..OpeningPart::default() };
        if as_found == AsFound::Fresh
            && left_over
            && let Some(file) = self.tasks.files.get_mut(key)
            && let Some(part) = file.place.part.clone()
        {
            opening.removed = true;
            if there {
                // A server does not say whether another copy writes it, which would rename what has its name then.
                opening.random = true;
                file.place.part = Some(part_name(&file.item.target, &random_tag()));
            }
            self.ends.start(Side::Target, Op::Remove(&part), Token::Nothing);
        }
        self.open_part(key, as_found, opening);
    }

    /// An earlier attempt has put this very source in its place, and what is there has its size, and its time where that was
    /// kept.
    pub(super) fn is_complete(&self, key: Key) -> bool {
        let Some(file) = self.tasks.files.get(key) else { return false };
        let (Some(tag), Some(old), Some(journal)) =
            (&file.place.tag, &file.place.old, &self.leftovers.journal)
        else {
            return false;
        };
        // The contents of what is there were found to be others.
        if self.options.tree_sync.as_ref().is_some_and(|options| options.checksum) {
            return false;
        }
        let modified = |info: &Info| info.times.map(|times| times.modification.0);
        journal.is_done(tag)
            && (!self.options.needs_all_data(self.plan.direction) || journal.sum(tag).is_some())
            && old.size == Some(file.requests.size)
            && (!self.options.preserve || modified(old) == modified(&file.item.info))
    }

    /// What is under the final name may be right: because the answer to our rename was lost, or because something else has
    /// left a part of it there (`-Z`). Opens it for comparison; false when it is not worth it.
    pub(super) fn adopt_target(&mut self, key: Key) -> bool {
        let Some(file) = self.tasks.files.get(key) else { return false };
        let (Some(part), Some(old)) = (&file.place.part, &file.place.old) else { return false };
        let Some(probe) = file.state.probe() else { return false };
        let there = old.size.unwrap_or(0);
        let renamed = probe.found.is_none()
            && there == file.requests.size
            && self.leftovers.journal.as_ref().is_some_and(|journal| journal.knows(part))
            && (self.ends.can_digest() || self.leftovers.noted(part) > 0);
        let partial = self.options.adopt_partial && (1..=file.requests.size).contains(&there);
        if !(renamed || partial) || file.place.tag.is_none() || probe.rejected || there == 0 {
            return false;
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        file.outstanding += 1;
        let (target, mode) = (file.item.target.clone(), 0o600);
        let op = if there == file.requests.size {
            Op::OpenRead(&target)
        } else {
            Op::OpenPart { path: &target, mode, as_found: AsFound::Adopted }
        };
        self.ends.start(Side::Target, op, Token::File(key, FileStep::Place(PlaceStep::Adopt)));
        true
    }

    /// The first `kept` bytes of what is under the final name are right. True when the data may follow.
    pub(in crate::engine) fn accept_adopted(&mut self, key: Key, probe: Probe, kept: u64) -> bool {
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        let there = file.place.old.as_ref().and_then(|old| old.size).unwrap_or(0);
        if kept < there {
            // Something else, and it stays until the copy is complete.
            file.state = State::Probing(Probe { rejected: true, ..probe });
            file.place.continued = false;
            file.resume_at(0);
            if let Some(handle) = file.handles.target.take() {
                self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
            }
            self.place_known(key);
            return false;
        }
        if kept < file.requests.size {
            return true;
        }
        if let Some(handle) = file.handles.target.take() {
            self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
        }
        if let Some(file) = self.tasks.files.get_mut(key)
            && let (Some(journal), Some(tag), Some(part)) =
                (&mut self.leftovers.journal, &file.place.tag, &file.place.part)
        {
            journal.finish(tag, part);
        }
        self.keep_complete(key);
        false
    }

    pub(super) fn keep_complete(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let size = file.requests.size;
        let (journal, tag) = (&self.leftovers.journal, &file.place.tag);
        let sum = journal.as_ref().zip(tag.as_ref()).and_then(|(journal, tag)| journal.sum(tag));
        file.place.kept = true;
        file.resume_at(size);
        file.requests.complete = true;
        self.close_file(key, sum);
    }

    /// Removes what nothing continues: see [`Leftovers::remove_outdated`](crate::leftovers::Leftovers::remove_outdated).
    fn discard_outdated(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get(key) else { return };
        if let Some(part) = &file.place.part {
            self.leftovers.remove_outdated(&file.item.target, part, &mut self.ends);
        }
    }
}
