//! Decides whether a copy continues an existing file, under its part name or its final name.

use crate::end::{AsFound, Done, Op, Outcome};
use crate::place::{PartFiles, PlaceNext};
use crate::table::Key;
use crate::task::found::{AfterProbe, FoundRules};
use crate::task::place::{part_name, random_tag};
use crate::task::probe::Probe;
use crate::task::state::{Found, State, Target};
use crate::token::{FileStep, PlaceStep, Side, Token};

impl PartFiles<'_> {
    /// All is known that there was to ask.
    pub(crate) fn all_known(&mut self, key: Key) -> PlaceNext {
        let rules = FoundRules::new(self.options, self.ends, self.plan.direction);
        let Some(file) = self.tasks.files.get(key).filter(|file| !file.faults.failed) else {
            return PlaceNext::Wait;
        };
        let State::Probing(probe) = &file.state else { return PlaceNext::Wait };
        if let Some(part) = &file.place.part {
            self.leftovers.remove_outdated(&file.item.target, part, self.ends);
        }
        let after = rules.after_probe(file, probe, self.leftovers, || self.ends.can_digest());
        let as_found = match after {
            AfterProbe::InPlace => return PlaceNext::InPlace,
            AfterProbe::KeepComplete => return self.keep_complete(key),
            AfterProbe::LookAtPart => {
                self.look_at_part(key);
                return PlaceNext::Wait;
            }
            AfterProbe::Adopt => {
                self.open_to_adopt(key);
                return PlaceNext::Wait;
            }
            AfterProbe::Open(as_found) => as_found,
            AfterProbe::OpenIfOurs(ids) => match self.tasks.is_part_ours(key, ids, self.leftovers, self.ends)
            {
                Some(true) => AsFound::Kept,
                Some(false) => AsFound::Fresh,
                // It is being asked.
                None => return PlaceNext::Wait,
            },
        };
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        let Some(opening) = file.state.probe().map(|probe| probe.opening(as_found, rules.remote)) else {
            return PlaceNext::Wait;
        };
        if opening.removed
            && let Some(part) = file.place.part.clone()
        {
            if opening.random {
                file.place.part = Some(part_name(&file.item.target, &random_tag()));
            }
            // On the channel of the file, so that it comes before the OPEN of what is to have the name.
            self.ends.start_before_others(key, Op::Remove(&part));
        }
        self.open_part(key, as_found, opening)
    }

    /// Opens what is under the final name for comparison. Not for writing: it may be something else, and
    /// there are servers that empty what is opened so, or answer READs of such handles with anything.
    fn open_to_adopt(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.outstanding += 1;
        let op = Op::OpenRead(&file.item.target);
        self.ends.start(Side::Target, op, Token::File(key, FileStep::Place(PlaceStep::Adopt)));
    }

    /// The first `kept` bytes of what is under the final name are right.
    pub(crate) fn adopted_compared(&mut self, key: Key, probe: Probe, kept: u64) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        let there = file.place.old.as_ref().and_then(|old| old.size).unwrap_or(0);
        file.state = State::Probing(probe);
        if let Some(handle) = file.handles.target.take() {
            self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
        }
        if kept < there {
            return self.reject(key);
        }
        if kept < file.requests.size {
            file.outstanding += 1;
            let op = Op::OpenPart { path: &file.item.target, mode: 0o600, as_found: AsFound::Adopted };
            self.ends.start(Side::Target, op, Token::File(key, FileStep::Place(PlaceStep::Continue)));
            return PlaceNext::Wait;
        }
        if let (Some(journal), Some(tag), Some(part)) =
            (&mut self.leftovers.journal, &file.place.tag, &file.place.part)
        {
            journal.finish(tag, part);
        }
        self.keep_complete(key)
    }

    /// Leaves an unsuitable file under its final name until the copy is complete.
    fn reject(&mut self, key: Key) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        if let Some(handle) = file.handles.target.take() {
            self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
        }
        if let Some(probe) = file.state.probe_mut() {
            probe.rejected = true;
        }
        file.place.continued = false;
        file.resume_at(0);
        self.all_known(key)
    }

    /// The beginning of the copy was opened for writing, or not.
    pub(super) fn on_continued(&mut self, key: Key, outcome: Outcome) -> PlaceNext {
        let Ok(Done::Opened(handle, _)) = outcome else { return self.reject(key) };
        let foreign = self.ends.is_foreign(Side::Target);
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        file.handles.target = Some(handle);
        if !foreign {
            file.state = State::Opened(Target::Part);
            return PlaceNext::Continue;
        }
        file.outstanding += 1;
        let token = Token::File(key, FileStep::Place(PlaceStep::ContinuedSize));
        self.ends.start(Side::Target, Op::Stat(&file.item.target), token);
        PlaceNext::Wait
    }

    /// Handles the length after OPEN of a file to continue. The file is compared once more, now through the
    /// handle that writes: servers exist that empty the file at OPEN and still tell its old length.
    pub(super) fn on_continued_size(&mut self, key: Key, outcome: &Outcome) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else {
            return PlaceNext::Wait;
        };
        match outcome {
            Ok(Done::Info(info)) if info.size.is_some_and(|size| size >= file.taken.kept) => {
                let kept = file.taken.kept;
                PlaceNext::Check { of: Found::Part, found: kept, known: kept, whole: false }
            }
            _ => self.reject(key),
        }
    }

    fn keep_complete(&mut self, key: Key) -> PlaceNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return PlaceNext::Wait };
        let size = file.requests.size;
        let (journal, tag) = (&self.leftovers.journal, &file.place.tag);
        let sum = journal.as_ref().zip(tag.as_ref()).and_then(|(journal, tag)| journal.sum(tag));
        file.place.kept = true;
        file.resume_at(size);
        file.requests.complete = true;
        PlaceNext::Complete(sum)
    }
}
