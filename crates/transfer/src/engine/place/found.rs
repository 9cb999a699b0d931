//! What is there already, under our name or the final one: whether to go on with it.

use crate::end::{AsFound, Op, Outcome};
use crate::engine::Engine;
use crate::table::Key;
use crate::task::found::{AfterProbe, FoundRules};
use crate::task::owner;
use crate::task::place::{part_name, random_tag};
use crate::task::probe::Probe;
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
        let rules = FoundRules::new(&self.options, &self.ends, self.plan.direction);
        let Some(file) = self.tasks.files.get(key).filter(|file| !file.faults.failed) else { return };
        let State::Probing(probe) = &file.state else { return };
        if let Some(part) = &file.place.part {
            self.leftovers.remove_outdated(&file.item.target, part, &mut self.ends);
        }
        let after = rules.after_probe(file, probe, &self.leftovers, || self.ends.can_digest());
        let as_found = match after {
            AfterProbe::InPlace => return self.open_target(key),
            AfterProbe::KeepComplete => return self.keep_complete(key),
            AfterProbe::LookAtPart => return self.look_at_part(key),
            AfterProbe::Adopt { whole } => return self.open_to_adopt(key, whole),
            AfterProbe::Open(as_found) => as_found,
            AfterProbe::OpenIfOurs(ids) => {
                match self.tasks.is_part_ours(key, ids, &mut self.leftovers, &mut self.ends) {
                    Some(true) => AsFound::Kept,
                    Some(false) => AsFound::Fresh,
                    // It is being asked.
                    None => return,
                }
            }
        };
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let Some(opening) = file.state.probe().map(|probe| probe.opening(as_found, rules.remote)) else {
            return;
        };
        if opening.removed
            && let Some(part) = file.place.part.clone()
        {
            if opening.random {
                file.place.part = Some(part_name(&file.item.target, &random_tag()));
            }
            self.ends.start(Side::Target, Op::Remove(&part), Token::Nothing);
        }
        self.open_part(key, as_found, opening);
    }

    /// Opens what is under the final name for comparison.
    fn open_to_adopt(&mut self, key: Key, whole: bool) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.outstanding += 1;
        let path = &file.item.target;
        let op = match whole {
            true => Op::OpenRead(path),
            false => Op::OpenPart { path, mode: 0o600, as_found: AsFound::Adopted },
        };
        self.ends.start(Side::Target, op, Token::File(key, FileStep::Place(PlaceStep::Adopt)));
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
}
