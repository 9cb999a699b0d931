//! Making a symbolic link, or another name of a file.
//!
//! It is made under our own name and moved over what is there, where there is something. Commands in, steps out: the caller
//! carries each step out and gives the answer back ([`NewNames::on_answer`]).

use std::collections::VecDeque;

use crate::end::{Change, Done, Fault, FaultKind, Outcome, fault_of, path_of};
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
    },
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
}

impl NewNames {
    pub(crate) const fn new(kept: Kept) -> Self {
        Self { names: Table::new(), kept, actions: VecDeque::new() }
    }

    /// Returns true when no name is being made.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.len() == 0
    }

    /// The next thing to carry out; `None` until an answer comes.
    pub(crate) fn next_action(&mut self) -> Option<NameAction> {
        self.actions.pop_front()
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
            What::Symlink(to) => NameAction::Symlink { key, step, to: to.clone(), link: at },
            What::Hard(original) => NameAction::Link { key, step, old: original.path.clone(), new: at },
        });
    }

    pub(crate) fn on_answer(&mut self, key: Key, step: NameStep, outcome: Outcome) {
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

/// Our own name beside the target.
fn beside(item: &Item) -> Vec<u8> {
    part_name(&item.target, &[0; 16])
}

#[cfg(test)]
mod tests {
    use crate::end::{Info, Kind, Times};

    use super::*;

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
        names.next_action().expect("something to do")
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
            assert!(names.is_empty() && names.next_action().is_none());
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
}
