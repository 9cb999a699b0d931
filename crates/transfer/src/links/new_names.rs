//! Making a symbolic link, or another name of a file.
//!
//! It is made under our own name and moved over what is there, where there is something. Commands in, steps out: the caller
//! carries each step out and gives the answer back ([`NewNames::on_answer`]).

use std::collections::VecDeque;

use lh_sftp::link_order::{Known, LinkOrder};
use lh_sftp::link_trial::{Answer, Failure, Step, Trial, Verdict};

use crate::end::{Change, Done, Fault, FaultKind, Kind, Outcome, fault_of, path_of};
use crate::item::{Item, There};
use crate::links::shared::Original;
use crate::table::{Key, Table};
use crate::task::place::part_name;
use crate::token::NameStep;
use crate::wording::Deed;

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

/// What a symbolic link keeps of its source.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kept {
    pub(crate) times: bool,
    pub(crate) ids: bool,
}

/// What the caller does next. The answer to a step with a key is for the [`NameStep`] that is named.
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
    Failed(Name, Deed, Fault),
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

    /// The next thing to carry out; `None` until an answer comes. `known`: the order in which the target reads the strings of SYMLINK.
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
        let replaced = (item.backed_up == Some(false)).then(|| item.target.clone());
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

    /// Makes it under our own name, to be moved over what is there. What an earlier attempt has left would be in the way.
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
                self.fail(key, Deed::OpenTarget, Err(fault));
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
            (NameStep::Look, outcome) => self.fail(key, Deed::StatSource, outcome),
            (NameStep::Read, outcome) => match path_of(outcome) {
                Ok(to) => {
                    name.what = What::Symlink(to);
                    match name.item.there {
                        // A server that does not know the order of the two strings could guess that the other one is the link.
                        There::Found(_) => self.make_beside(key),
                        There::Unknown | There::Nothing => self.make(key),
                    }
                }
                Err(fault) => self.fail(key, Deed::ReadSource, Err(fault)),
            },
            (NameStep::BackUp, Ok(_)) => self.make(key),
            (NameStep::BackUp, outcome) => self.fail(key, Deed::PlaceTarget, outcome),
            (NameStep::Make, Ok(_)) => self.finish(key),
            (NameStep::Make, Err(fault)) if fault.kind == FaultKind::Lost => {
                self.fail(key, Deed::OpenTarget, Err(fault));
            }
            (NameStep::Make, Err(_)) => self.make_beside(key),
            (NameStep::MakeBeside, Ok(_)) => {
                let (old, new) = (beside(&name.item), name.item.target.clone());
                self.actions.push_back(NameAction::Rename { key, old, new });
            }
            (NameStep::MakeBeside, outcome) => self.fail(key, Deed::OpenTarget, outcome),
            (NameStep::Replace, outcome) => {
                if outcome.is_err() || matches!(name.what, What::Hard(_)) {
                    // Renaming a name of a file over another name of it does nothing.
                    self.actions.push_back(NameAction::Remove(beside(&name.item)));
                }
                match outcome {
                    Ok(_) => self.finish(key),
                    outcome => self.fail(key, Deed::PlaceTarget, outcome),
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

    fn fail(&mut self, key: Key, deed: Deed, outcome: Outcome) {
        let name = self.names.remove(key);
        self.actions.extend(name.map(|name| NameAction::Failed(name, deed, fault_of(outcome))));
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

    /// Returns the order in which the server has made the link, or why it has not; `None` where there is more to do.
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
mod tests {
    use crate::end::{Info, Times};

    use super::*;

    const KNOWN: Known = Known::Always(LinkOrder::TargetFirst);

    fn link(there: There) -> Item {
        let times = Some(Times { access: (1, 0), modification: (2, 0) });
        let info = Info { kind: Kind::Symlink, mode: Some(0o777), times, ..Info::UNKNOWN };
        Item { there, ..Item::top(b"s".to_vec(), b"t".to_vec(), info) }
    }

    fn to() -> Outcome {
        let entry = crate::end::Entry { name: b"to"[..].into(), info: Info::UNKNOWN };
        Ok(Done::Listed(Some(vec![entry])))
    }

    fn refused() -> Outcome {
        Err(Fault::other("no"))
    }

    fn next(names: &mut NewNames) -> NameAction {
        names.next_action(KNOWN).expect("something to do")
    }

    #[test]
    fn link_is_made_directly_where_there_is_nothing() {
        let mut names = NewNames::new(Kept { times: true, ids: false });
        names.begin_symlink(3, link(There::Nothing));
        assert!(matches!(next(&mut names), NameAction::ReadLink(..)));
        names.on_answer(0, NameStep::Read, to());
        let NameAction::Symlink { to, link, .. } = next(&mut names) else { panic!("no link") };
        assert_eq!((&to[..], &link[..]), (&b"to"[..], &b"t"[..]));
        names.on_answer(0, NameStep::Make, Ok(Done::Ok));
        assert!(matches!(next(&mut names), NameAction::SetLink { .. }));
        names.on_answer(0, NameStep::Finish, refused());
        let NameAction::Made(name) = next(&mut names) else { panic!("not made") };
        assert!(name.id == 3 && names.is_empty());
    }

    #[test]
    fn link_replaces_what_is_there_in_one_step() {
        for fails in [false, true] {
            let info = Info { kind: Kind::File, ..Info::UNKNOWN };
            let mut names = NewNames::new(Kept::default());
            names.begin_symlink(3, link(There::Found(info)));
            next(&mut names);
            names.on_answer(0, NameStep::Read, to());
            assert!(matches!(next(&mut names), NameAction::Remove(path) if path != b"t"));
            assert!(matches!(next(&mut names), NameAction::Symlink { link, .. } if link != b"t"));
            names.on_answer(0, NameStep::MakeBeside, Ok(Done::Ok));
            assert!(matches!(next(&mut names), NameAction::Rename { new, .. } if new == b"t"));
            names.on_answer(0, NameStep::Replace, if fails { refused() } else { Ok(Done::Ok) });
            if fails {
                assert!(matches!(next(&mut names), NameAction::Remove(path) if path != b"t"));
                assert!(matches!(next(&mut names), NameAction::Failed(_, Deed::PlaceTarget, _)));
            } else {
                assert!(matches!(next(&mut names), NameAction::Made(_)));
            }
            assert!(names.is_empty() && names.next_action(KNOWN).is_none());
        }
    }

    #[test]
    fn hard_link_removes_our_name_after_replacing() {
        let mut names = NewNames::new(Kept { times: true, ids: true });
        let original = Original { path: b"first".to_vec(), sum: None };
        names.begin_hard(3, Item { backed_up: Some(false), ..link(There::Unknown) }, original);
        assert!(matches!(next(&mut names), NameAction::BackUp(..)));
        names.on_answer(0, NameStep::BackUp, Ok(Done::Ok));
        assert!(
            matches!(next(&mut names), NameAction::Link { old, new, .. } if old == b"first" && new == b"t")
        );
        names.on_answer(0, NameStep::Make, refused());
        assert!(matches!(next(&mut names), NameAction::Remove(_)));
        assert!(matches!(next(&mut names), NameAction::Link { .. }));
        names.on_answer(0, NameStep::MakeBeside, Ok(Done::Ok));
        next(&mut names);
        names.on_answer(0, NameStep::Replace, Ok(Done::Ok));
        assert!(matches!(next(&mut names), NameAction::Remove(_)));
        // It has the attributes of its file.
        assert!(matches!(next(&mut names), NameAction::Made(_)));
    }

    #[test]
    fn lost_connection_is_not_tried_around() {
        let mut names = NewNames::new(Kept::default());
        names.begin_hard(3, link(There::Nothing), Original { path: b"first".to_vec(), sum: None });
        next(&mut names);
        let lost = Fault { kind: FaultKind::Lost, text: String::new() };
        names.on_answer(0, NameStep::Make, Err(lost));
        assert!(matches!(next(&mut names), NameAction::Failed(..)) && names.is_empty());
    }

    const UNKNOWN: Known = Known::UNKNOWN;

    fn missing() -> Outcome {
        Err(Fault { kind: FaultKind::NotFound, text: "none".to_owned() })
    }

    /// Two links for a server whose order is not known, of which the first is tried.
    fn two_links() -> NewNames {
        let mut names = NewNames::new(Kept::default());
        names.begin_symlink(3, link(There::Nothing));
        names.begin_symlink(4, link(There::Nothing));
        names.next_action(UNKNOWN);
        names.next_action(UNKNOWN);
        names.on_answer(0, NameStep::Read, to());
        names.on_answer(1, NameStep::Read, to());
        assert!(matches!(names.next_action(UNKNOWN), Some(NameAction::Look(0, path)) if path == b"t"));
        assert!(names.next_action(UNKNOWN).is_none(), "the second link waits");
        names
    }

    #[test]
    fn first_link_finds_the_order_for_the_others() {
        let mut names = two_links();
        let mut answered = |outcome| {
            names.on_answer(0, NameStep::Trial, outcome);
            names.next_action(UNKNOWN)
        };
        assert!(matches!(answered(missing()), Some(NameAction::Look(0, path)) if path == b"to"));
        let Some(NameAction::Symlink { step, order, .. }) = answered(missing()) else { panic!("no link") };
        assert!(matches!(step, NameStep::Trial) && order == LinkOrder::TargetFirst);
        assert!(matches!(answered(Ok(Done::Ok)), Some(NameAction::ReadBack(0, path)) if path == b"t"));
        assert!(matches!(answered(missing()), Some(NameAction::Look(0, path)) if path == b"t"));
        assert!(matches!(answered(missing()), Some(NameAction::ReadBack(0, path)) if path == b"to"));
        let entry = crate::end::Entry { name: b"t"[..].into(), info: Info::UNKNOWN };
        let reversed = Ok(Done::Listed(Some(vec![entry])));
        assert!(matches!(answered(reversed), Some(NameAction::Undo(0, path)) if path == b"to"));
        let Some(NameAction::Symlink { order, .. }) = answered(Ok(Done::Ok)) else { panic!("no link") };
        assert_eq!(order, LinkOrder::LinkFirst);
        assert!(matches!(answered(Ok(Done::Ok)), Some(NameAction::ReadBack(..))));
        assert!(matches!(answered(to()), Some(NameAction::UseOrder(LinkOrder::LinkFirst))));
        let known = Known::Always(LinkOrder::LinkFirst);
        assert!(matches!(names.next_action(known), Some(NameAction::Made(name)) if name.id == 3));
        let Some(NameAction::Symlink { key: 1, step, order, .. }) = names.next_action(known) else {
            panic!("no second link")
        };
        assert!(matches!(step, NameStep::Make) && order == LinkOrder::LinkFirst);
    }

    #[test]
    fn link_that_cannot_be_made_leaves_the_trial_to_the_next() {
        let denied = || Err(Fault::other("denied"));
        let lost = || Err(Fault { kind: FaultKind::Lost, text: "gone".to_owned() });
        for (fault, text) in [(denied as fn() -> Outcome, "denied"), (lost, "gone")] {
            let mut names = two_links();
            names.on_answer(0, NameStep::Trial, missing());
            names.next_action(UNKNOWN);
            names.on_answer(0, NameStep::Trial, missing());
            names.next_action(UNKNOWN);
            while names.next_action(UNKNOWN).is_none() {
                names.on_answer(0, NameStep::Trial, fault());
                match names.next_action(UNKNOWN) {
                    Some(NameAction::Failed(name, Deed::OpenTarget, fault)) => {
                        assert!(name.id == 3 && fault.text == text);
                        break;
                    }
                    Some(NameAction::Symlink { order: LinkOrder::LinkFirst, .. }) => {}
                    other => panic!("{other:?}"),
                }
            }
            assert!(matches!(names.next_action(UNKNOWN), Some(NameAction::Look(1, _))));
        }
    }

    #[test]
    fn existing_name_is_replaced_with_care_too() {
        let mut names = two_links();
        names.on_answer(0, NameStep::Trial, Ok(Done::Info(Info { kind: Kind::File, ..Info::UNKNOWN })));
        assert!(matches!(next(&mut names), NameAction::Remove(path) if path != b"t"));
        assert!(matches!(names.next_action(UNKNOWN), Some(NameAction::Look(0, path)) if path != b"t"));
    }
}
