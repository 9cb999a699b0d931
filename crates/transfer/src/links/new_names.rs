//! Making a symbolic link, or another name of a file.
//!
//! It is made under our own name and moved over what is there, where there is something. Commands in, steps
//! out: the caller carries each step out and gives the answer back ([`NewNames::on_answer`]).

use std::collections::VecDeque;

use lh_sftp::link_order::{Known, LinkOrder};
use lh_sftp::link_trial::{Answer, Failure, Step, Trial, Verdict};

use crate::end::{Change, Done, Fault, FaultKind, Kind, Outcome, fault_of, path_of};
use crate::item::{BackupState, Item, TargetEntry};
use crate::links::shared::Original;
use crate::table::{Key, Table};
use crate::task::place::part_name;
use crate::token::NameStep;
use crate::wording::FailedStep;

/// A name being made.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) id: u64,
    pub(crate) item: Item,
    pub(crate) what: What,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A symbolic link that leads there.
    Symlink(Vec<u8>),
    /// Another name of this copy.
    Hard(Original),
}

/// Attributes of its source that a symbolic link keeps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kept {
    pub(crate) times: bool,
    pub(crate) ids: bool,
}

/// Next action of the caller. The answer to a step with a key is for the named [`NameStep`].
#[derive(Debug)]
pub(crate) enum NameAction {
    /// Looks at the source: [`NameStep::Look`].
    Lstat(Key, Vec<u8>),
    /// Reads the link of the source: [`NameStep::Read`].
    ReadLink(Key, Vec<u8>),
    /// Moves what is there to the directory of backups: [`NameStep::BackUp`].
    BackUp(Key, Vec<u8>),
    Symlink {
        key: Key,
        step: NameStep,
        to: Vec<u8>,
        link: Vec<u8>,
        order: LinkOrder,
    },
    /// A step of making a symbolic link with care, at the target: [`NameStep::Trial`].
    Look(Key, Vec<u8>),
    ReadBack(Key, Vec<u8>),
    Undo(Key, Vec<u8>),
    /// The server reads the strings of SYMLINK in this order.
    UseOrder(LinkOrder),
    Link {
        key: Key,
        step: NameStep,
        old: Vec<u8>,
        new: Vec<u8>,
    },
    /// Removes what an attempt has left; no answer is wanted.
    Remove(Vec<u8>),
    /// [`NameStep::Replace`].
    Rename {
        key: Key,
        old: Vec<u8>,
        new: Vec<u8>,
    },
    /// Sets attributes of a link itself: [`NameStep::Finish`].
    SetLink {
        key: Key,
        path: Vec<u8>,
        change: Change,
    },
    /// The name is made.
    Made(Name),
    Failed(Name, FailedStep, Fault),
}

/// The names that are being made.
#[derive(Debug)]
pub(crate) struct NewNames {
    names: Table<Name>,
    kept: Kept,
    actions: VecDeque<NameAction>,
    /// The first symbolic link on a server whose order is not known, until it is.
    trial: Option<Trying>,
    /// The links that wait for that, by the step that makes them.
    held: Vec<(Key, NameStep, Vec<u8>)>,
}

/// A [`Trial`] for one name.
#[derive(Debug)]
struct Trying {
    key: Key,
    /// The step that it stands for.
    step: NameStep,
    trial: Trial,
    /// Why the server has refused to make the link.
    fault: Option<Fault>,
}

impl NewNames {
    pub(crate) const fn new(kept: Kept) -> Self {
        Self { names: Table::new(), kept, actions: VecDeque::new(), trial: None, held: Vec::new() }
    }

    /// Returns true when no name is being made.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.len() == 0
    }

    /// Returns the next action that the caller carries out; `None` if nothing can be done before the next
    /// answer. `known`: the order in which the target's server reads the two paths of a SYMLINK request.
    pub(crate) fn next_action(&mut self, known: Known) -> Option<NameAction> {
        loop {
            match (self.actions.pop_front()?, known) {
                (action @ NameAction::Symlink { step: NameStep::Trial, .. }, _) => return Some(action),
                (NameAction::Symlink { key, step, to, link, .. }, Known::Always(order)) => {
                    return Some(NameAction::Symlink { key, step, to, link, order });
                }
                (NameAction::Symlink { key, step, link, .. }, Known::Mostly(_)) if self.trial.is_some() => {
                    self.held.push((key, step, link));
                }
                (NameAction::Symlink { key, step, to, link, .. }, Known::Mostly(order)) => {
                    let trial = Trial::new(to, link, order);
                    return Some(self.trial.insert(Trying { key, step, trial, fault: None }).action());
                }
                (action, _) => return Some(action),
            }
        }
    }

    /// Makes the symbolic link that `item` is.
    pub(crate) fn begin_symlink(&mut self, id: u64, item: Item) {
        let (known, source) = (item.info.mode.is_some(), item.source.clone());
        let key = self.names.insert(Name { id, item, what: What::Symlink(Vec::new()) });
        self.actions.push_back(match known {
            true => NameAction::ReadLink(key, source),
            false => NameAction::Lstat(key, source),
        });
    }

    /// Makes `item` another name of `original`.
    pub(crate) fn begin_hard(&mut self, id: u64, item: Item, original: Original) {
        let replaced = (item.sync.backup == BackupState::Due).then(|| item.target.clone());
        let key = self.names.insert(Name { id, item, what: What::Hard(original) });
        match replaced {
            Some(target) => self.actions.push_back(NameAction::BackUp(key, target)),
            None => self.make(key),
        }
    }

    /// Makes the name itself.
    fn make(&mut self, key: Key) {
        if let Some(name) = self.names.get(key) {
            let at = name.item.target.clone();
            self.make_at(key, NameStep::Make, at);
        }
    }

    /// Makes it under our own name, to be moved over what is there. What an earlier attempt has left would be
    /// in the way.
    fn make_beside(&mut self, key: Key) {
        if let Some(name) = self.names.get(key) {
            let beside = beside(&name.item);
            self.actions.push_back(NameAction::Remove(beside.clone()));
            self.make_at(key, NameStep::MakeBeside, beside);
        }
    }

    fn make_at(&mut self, key: Key, step: NameStep, at: Vec<u8>) {
        let Some(name) = self.names.get(key) else { return };
        self.actions.push_back(match &name.what {
            What::Symlink(to) => {
                let (to, order) = (to.clone(), LinkOrder::TargetFirst);
                NameAction::Symlink { key, step, to, link: at, order }
            }
            What::Hard(original) => NameAction::Link { key, step, old: original.path.clone(), new: at },
        });
    }

    pub(crate) fn on_answer(&mut self, key: Key, step: NameStep, outcome: Outcome) {
        match step {
            NameStep::Trial => self.on_trial(outcome),
            step => self.on_step(key, step, outcome),
        }
    }

    /// A step of the trial has its answer.
    fn on_trial(&mut self, outcome: Outcome) {
        let Some(trying) = &mut self.trial else { return };
        let Some(end) = trying.on_answer(outcome) else {
            return self.actions.push_back(trying.action());
        };
        let (key, step) = (trying.key, trying.step);
        self.trial = None;
        let outcome = end.map(|order| {
            self.actions.push_back(NameAction::UseOrder(order));
            Done::Ok
        });
        match (step, outcome) {
            // There is nothing in the way that another name would avoid.
            (NameStep::Make, Err(fault)) if fault.text != Failure::Exists.to_string() => {
                self.fail_to_make(key, Err(fault));
            }
            (step, outcome) => self.on_step(key, step, outcome),
        }
        for (key, step, at) in std::mem::take(&mut self.held) {
            self.make_at(key, step, at);
        }
    }

    fn on_step(&mut self, key: Key, step: NameStep, outcome: Outcome) {
        let Some(name) = self.names.get_mut(key) else { return };
        match (step, outcome) {
            (NameStep::Look, Ok(Done::Info(info))) => {
                name.item.info = info;
                let source = name.item.source.clone();
                self.actions.push_back(NameAction::ReadLink(key, source));
            }
            (NameStep::Look, outcome) => self.fail(key, FailedStep::StatSource, outcome),
            (NameStep::Read, outcome) => match path_of(outcome) {
                Ok(to) => {
                    name.what = What::Symlink(to);
                    match name.item.sync.there {
                        // A server that does not know the order of the two strings could guess that the other
                        // one is the link.
                        TargetEntry::Found(_) => self.make_beside(key),
                        TargetEntry::Unknown | TargetEntry::Nothing => self.make(key),
                    }
                }
                Err(fault) => self.fail(key, FailedStep::ReadSource, Err(fault)),
            },
            (NameStep::BackUp, Ok(_)) => self.make(key),
            (NameStep::BackUp, outcome) => self.fail(key, FailedStep::PlaceTarget, outcome),
            (NameStep::Make, Ok(_)) => self.finish(key),
            (NameStep::Make, Err(fault)) if fault.kind == FaultKind::Lost => {
                self.fail_to_make(key, Err(fault));
            }
            (NameStep::Make, Err(_)) => self.make_beside(key),
            (NameStep::MakeBeside, Ok(_)) => {
                let (old, new) = (beside(&name.item), name.item.target.clone());
                self.actions.push_back(NameAction::Rename { key, old, new });
            }
            (NameStep::MakeBeside, outcome) => self.fail_to_make(key, outcome),
            (NameStep::Replace, outcome) => {
                if outcome.is_err() || matches!(name.what, What::Hard(_)) {
                    // Renaming a name of a file over another name of it does nothing.
                    self.actions.push_back(NameAction::Remove(beside(&name.item)));
                }
                match outcome {
                    Ok(_) => self.finish(key),
                    outcome => self.fail(key, FailedStep::PlaceTarget, outcome),
                }
            }
            // A link whose times cannot be set is a link all the same.
            (NameStep::Finish, _) => self.end(key),
            (NameStep::Trial, _) => {}
        }
    }

    /// Gives a symbolic link its attributes.
    fn finish(&mut self, key: Key) {
        let Some(name) = self.names.get(key) else { return };
        let (info, mut change) = (&name.item.info, Change::default());
        if matches!(name.what, What::Symlink(_)) {
            change.times = info.times.filter(|_| self.kept.times);
            change.ids = info.ids.filter(|_| self.kept.ids);
        }
        if change == Change::default() {
            return self.end(key);
        }
        let path = name.item.target.clone();
        self.actions.push_back(NameAction::SetLink { key, path, change });
    }

    fn end(&mut self, key: Key) {
        self.actions.extend(self.names.remove(key).map(NameAction::Made));
    }

    fn fail_to_make(&mut self, key: Key, outcome: Outcome) {
        let symlink = self.names.get(key).is_some_and(|name| matches!(name.what, What::Symlink(_)));
        let step = if symlink { FailedStep::MakeSymlink } else { FailedStep::MakeLink };
        self.fail(key, step, outcome);
    }

    fn fail(&mut self, key: Key, step: FailedStep, outcome: Outcome) {
        let name = self.names.remove(key);
        self.actions.extend(name.map(|name| NameAction::Failed(name, step, fault_of(outcome))));
    }
}

impl Trying {
    fn action(&self) -> NameAction {
        let (key, trial) = (self.key, &self.trial);
        match trial.step() {
            Step::Look(path) => NameAction::Look(key, path.to_vec()),
            Step::Read(path) => NameAction::ReadBack(key, path.to_vec()),
            Step::Remove(path) => NameAction::Undo(key, path.to_vec()),
            Step::Make(order) => {
                let (to, link) = (trial.target().to_vec(), trial.link().to_vec());
                NameAction::Symlink { key, step: NameStep::Trial, to, link, order }
            }
        }
    }

    /// Returns the order in which the server has made the link, or why it has not; `None` where there is more
    /// to do.
    fn on_answer(&mut self, outcome: Outcome) -> Option<Result<LinkOrder, Fault>> {
        let answer = match outcome {
            Err(fault) if fault.kind == FaultKind::Lost => return Some(Err(fault)),
            Err(fault) => {
                let missing = fault.kind == FaultKind::NotFound;
                if matches!(self.trial.step(), Step::Make(_)) {
                    self.fault.get_or_insert(fault);
                }
                if missing { Answer::Missing } else { Answer::Refused }
            }
            Ok(Done::Info(info)) => match info.kind {
                Kind::Symlink | Kind::Unknown => Answer::Link,
                _ => Answer::NoLink,
            },
            Ok(Done::Ok) => Answer::Ok,
            outcome => path_of(outcome).map_or(Answer::Refused, Answer::LeadsTo),
        };
        match self.trial.answer(answer)? {
            Verdict::Made(order) => Some(Ok(order)),
            Verdict::Failed(failure) => {
                let refused = self.fault.take().filter(|_| failure == Failure::Refused);
                Some(Err(refused.unwrap_or_else(|| Fault::other(failure.to_string()))))
            }
        }
    }
}

/// Our own name beside the target.
fn beside(item: &Item) -> Vec<u8> {
    part_name(&item.target, &[0; 16])
}

#[cfg(test)]
mod tests;
