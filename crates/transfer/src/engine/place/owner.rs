//! Whether what is under our name at a server is ours: in a directory that others may write to, it may be another user's.
//!
//! A server does not say which user it runs as. A file that it has just made belongs to that user: one is made, looked at and removed,
//! once in a copy that finds something to go on with.

use crate::end::{AsFound, Done, Op, Outcome};
use crate::engine::Engine;
use crate::table::Key;
use crate::target_facts::Us;
use crate::task::place::{part_name, random_tag};
use crate::token::{OwnerStep, Side, Token};

impl Engine {
    /// Whether what was found under our name, with these `ids`, is ours; `None` where that has to be asked first.
    pub(super) fn is_part_ours(&mut self, key: Key, ids: Option<(u32, u32)>) -> Option<bool> {
        let file = self.tasks.files.get(key)?;
        let part = file.place.part.as_deref().unwrap_or_default();
        let Some((owner, _)) = ids else {
            // A server that has no owners: what this copy has noted to have made.
            return Some(self.leftovers.journal.as_ref().is_some_and(|journal| journal.knows(part)));
        };
        if let Us::Known(us) = &self.ends.facts.us {
            return Some(*us == Some(owner));
        }
        let target = file.item.target.clone();
        if let Some(file) = self.tasks.files.get_mut(key) {
            file.outstanding += 1;
        }
        if let Us::Asked(_, waiting) = &mut self.ends.facts.us {
            waiting.push(key);
            return None;
        }
        let path = part_name(&target, &random_tag());
        self.ends.facts.us = Us::Asked(path.clone(), vec![key]);
        let op = Op::OpenPart { path: &path, mode: 0o600, as_found: AsFound::Fresh };
        self.ends.start(Side::Target, op, Token::Us(OwnerStep::Make));
        None
    }

    pub(in crate::engine) fn us_answer(&mut self, step: OwnerStep, outcome: Outcome) {
        let us = match (step, outcome) {
            (OwnerStep::Make, Ok(Done::Opened(handle, _))) => {
                let Us::Asked(path, _) = &self.ends.facts.us else { return };
                let path = path.clone();
                self.ends.start(Side::Target, Op::Fstat(&handle), Token::Us(OwnerStep::Look));
                self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
                return self.remove_part(path);
            }
            (OwnerStep::Look, Ok(Done::Info(info))) => info.ids.map(|(user, _)| user),
            _ => None,
        };
        if let Us::Asked(_, waiting) = std::mem::replace(&mut self.ends.facts.us, Us::Known(us)) {
            for key in waiting {
                if let Some(file) = self.tasks.files.get_mut(key) {
                    file.outstanding -= 1;
                }
                self.place_known(key);
                self.move_on(key);
            }
        }
    }

    /// Removes a part file; reports it where that is impossible.
    pub(in crate::engine) fn remove_part(&mut self, path: Vec<u8>) {
        let key = self.leftovers.removing.insert(path.clone());
        self.ends.start(Side::Target, Op::Remove(&path), Token::Removed(key));
    }

    pub(in crate::engine) fn part_removed(&mut self, key: Key, outcome: &Outcome) {
        if let Some(path) = self.leftovers.removing.remove(key) {
            self.report_left(&path, outcome);
        }
    }

    /// Reports a part file that could not be removed.
    pub(super) fn report_left(&mut self, path: &[u8], outcome: &Outcome) {
        use crate::end::FaultKind;
        if let Err(fault) = outcome
            && !matches!(fault.kind, FaultKind::Lost | FaultKind::NotFound)
        {
            let path = crate::display_name(path);
            self.report.skip(format!("\"{path}\" is unfinished and is left there: remove: {}", fault.text));
        }
    }
}
