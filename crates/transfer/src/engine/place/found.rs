//! What is there already, under our name or the final one: whether to go on with it.

use crate::end::{AsFound, Done, Info, Op, Outcome};
use crate::engine::Engine;
use crate::table::Key;
use crate::token::{FileStep, PlaceStep, Side, Token};

impl Engine {
    /// All is known that there was to ask.
    pub(super) fn place_known(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if file.failed {
            return;
        }
        if file.place.unfit || self.ends.facts.renames_barred {
            return self.open_target(key);
        }
        if self.is_complete(key) {
            return self.keep_complete(key);
        }
        if self.tasks.files.get(key).is_some_and(|file| file.place.part_unasked) {
            return self.look_at_part(key);
        }
        if self.adopt_target(key) {
            return;
        }
        let Some(file) = self.tasks.files.get(key) else { return };
        let worth = file.place.found.is_some_and(|found| found > 0) && file.place.tag.is_some();
        let known = file.place.part.as_deref().map_or(0, |part| self.leftovers.noted(part));
        let wanted = worth && (self.ends.can_digest() || known > 0);
        let there = self.ends.target.is_some();
        let as_found = match file.place.found {
            Some(_) if wanted && there => match self.is_part_ours(key) {
                Some(true) => AsFound::Kept,
                Some(false) => AsFound::Fresh,
                // It is being asked.
                None => return,
            },
            Some(_) if wanted => AsFound::Kept,
            Some(_) if !there => AsFound::Empty,
            _ => AsFound::Fresh,
        };
        if as_found == AsFound::Fresh
            && let Some(file) = self.tasks.files.get_mut(key)
            && file.place.left_over
            && let Some(part) = file.place.part.clone()
        {
            file.place.in_the_way = true;
            self.ends.start(Side::Target, Op::Remove(&part), Token::Nothing);
        }
        if as_found != AsFound::Kept
            && let Some(file) = self.tasks.files.get_mut(key)
        {
            file.place.found = None;
        }
        self.discard_outdated(key);
        self.open_part(key, as_found);
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
            && (!self.needs_all_data() || journal.sum(tag).is_some())
            && old.size == Some(file.size)
            && (!self.options.preserve || modified(old) == modified(&file.item.info))
    }

    /// What is under the final name may be right: because the answer to our rename was lost, or because something else has
    /// left a part of it there (`-Z`). Opens it for comparison; false when it is not worth it.
    pub(super) fn adopt_target(&mut self, key: Key) -> bool {
        let Some(file) = self.tasks.files.get(key) else { return false };
        let (Some(part), Some(old)) = (&file.place.part, &file.place.old) else { return false };
        let there = old.size.unwrap_or(0);
        let renamed = file.place.found.is_none()
            && there == file.size
            && self.leftovers.journal.as_ref().is_some_and(|journal| journal.knows(part))
            && (self.ends.can_digest() || self.leftovers.noted(part) > 0);
        let partial = self.options.adopt_partial && (1..=file.size).contains(&there);
        if !(renamed || partial) || file.place.tag.is_none() || file.place.rejected || there == 0 {
            return false;
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        file.outstanding += 1;
        let (target, mode) = (file.item.target.clone(), 0o600);
        let op = if there == file.size {
            Op::OpenRead(&target)
        } else {
            Op::OpenPart { path: &target, mode, as_found: AsFound::Adopted }
        };
        self.ends.start(Side::Target, op, Token::File(key, FileStep::Place(PlaceStep::Adopt)));
        true
    }

    pub(super) fn adopted(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let Ok(Done::Opened(handle, _)) = outcome else {
            file.place.rejected = true;
            return self.place_known(key);
        };
        file.target = Some(handle);
        file.place.adopted = true;
        let there = file.place.old.as_ref().and_then(|old| old.size).unwrap_or(0);
        file.old_size = Some(there);
        file.holes.blank_from = there;
        let partial = self.options.adopt_partial;
        self.begin_check(key, there, there, partial);
    }

    /// The comparison says that the first `kept` bytes are right. True when the data may follow.
    pub(in crate::engine) fn accept_found(&mut self, key: Key, kept: u64) -> bool {
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        if !file.place.adopted {
            return true;
        }
        let there = file.place.old.as_ref().and_then(|old| old.size).unwrap_or(0);
        if kept < there {
            // Something else, and it stays until the copy is complete.
            file.place.adopted = false;
            file.place.rejected = true;
            file.resume_at(0);
            if let Some(handle) = file.target.take() {
                self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
            }
            self.place_known(key);
            return false;
        }
        if kept < file.size {
            return true;
        }
        if let Some(handle) = file.target.take() {
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
        let size = file.size;
        if let (Some(journal), Some(tag)) = (&self.leftovers.journal, &file.place.tag) {
            file.copied.1 = journal.sum(tag);
        }
        file.place.kept = true;
        file.resume_at(size);
        file.all_requested = true;
        self.close_file(key);
    }

    /// Removes what grew here of an earlier state of the source: nothing continues it.
    pub(super) fn discard_outdated(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get(key) else { return };
        let (Some(part), Some(journal)) = (&file.place.part, &mut self.leftovers.journal) else { return };
        let outdated = journal.outdated(&file.item.target, part);
        outdated.iter().for_each(|outdated| journal.forget(outdated));
        for outdated in outdated {
            self.ends.start(Side::Target, Op::Remove(&outdated), Token::Nothing);
        }
    }

    pub(super) fn look_at_found(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get(key).filter(|file| !file.failed) else { return };
        match file.place.found {
            Some(found) => {
                let known = file.place.part.as_deref().map_or(0, |part| self.leftovers.noted(part));
                self.begin_check(key, found, known, false);
            }
            None => self.begin_data(key),
        }
    }
}
