//! Decides whether a file under a part name at a server is ours: in a directory that others may write to, it
//! may be another user's.
//!
//! A server does not say which user it runs as. A file that it has just made belongs to that user: one is
//! created, looked at and removed, once in a copy that finds a file to continue.

use crate::end::{AsFound, Done, FaultKind, Op, Outcome};
use crate::ends::Ends;
use crate::leftovers::Leftovers;
use crate::table::Key;
use crate::target_facts::TargetUser;
use crate::task::place::{part_name, random_tag};
use crate::task::queues::Tasks;
use crate::token::{OwnerStep, Side, Token};

impl Tasks {
    /// Returns whether the file found under the part name, with these `ids`, is ours; `None` if the server
    /// must be asked first.
    pub(crate) fn is_part_ours(
        &mut self,
        key: Key,
        ids: Option<(u32, u32)>,
        leftovers: &mut Leftovers,
        ends: &mut Ends,
    ) -> Option<bool> {
        let file = self.files.get(key)?;
        let part = file.place.part.as_deref().unwrap_or_default();
        let Some((owner, _)) = ids else {
            // A server that has no owners: what this copy has noted to have made.
            return Some(leftovers.journal.as_ref().is_some_and(|journal| journal.knows(part)));
        };
        if let TargetUser::Known(us) = &ends.facts.us {
            return Some(*us == Some(owner));
        }
        let target = file.item.target.clone();
        if let Some(file) = self.files.get_mut(key) {
            file.outstanding += 1;
        }
        if let TargetUser::Asked(_, waiting) = &mut ends.facts.us {
            waiting.push(key);
            return None;
        }
        let path = part_name(&target, &random_tag());
        // Without an answer, the next attempt must know of it.
        if let Some(journal) = &mut leftovers.journal {
            journal.begin(&target, &path);
            journal.flush();
        }
        ends.facts.us = TargetUser::Asked(path.clone(), vec![key]);
        let op = Op::OpenPart { path: &path, mode: 0o600, as_found: AsFound::Fresh };
        ends.start(Side::Target, op, Token::TargetUser(OwnerStep::Make));
        None
    }
}

/// Takes an answer about the user of the target's server. Returns the files that waited for it.
pub(crate) fn user_answer(
    step: OwnerStep,
    outcome: Outcome,
    leftovers: &mut Leftovers,
    ends: &mut Ends,
) -> Vec<Key> {
    if let (OwnerStep::Make, Err(fault), TargetUser::Asked(path, _)) = (step, &outcome, &ends.facts.us)
        && fault.kind != FaultKind::Lost
        && let Some(journal) = &mut leftovers.journal
    {
        journal.forget(path);
    }
    let us = match (step, outcome) {
        (OwnerStep::Make, Ok(Done::Opened(handle, _))) => {
            let TargetUser::Asked(path, _) = &ends.facts.us else { return Vec::new() };
            let path = path.clone();
            ends.start(Side::Target, Op::Fstat(&handle), Token::TargetUser(OwnerStep::Look));
            ends.start(Side::Target, Op::Close(handle), Token::Nothing);
            leftovers.remove_part(path, ends);
            return Vec::new();
        }
        (OwnerStep::Look, Ok(Done::Info(info))) => info.ids.map(|(user, _)| user),
        _ => None,
    };
    match std::mem::replace(&mut ends.facts.us, TargetUser::Known(us)) {
        TargetUser::Asked(_, waiting) => waiting,
        TargetUser::Unknown | TargetUser::Known(_) => Vec::new(),
    }
}
