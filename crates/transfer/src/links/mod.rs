//! Names that are no files of their own: symbolic links, and other names of a file.

pub(crate) mod new_names;
pub(crate) mod shared;

use crate::end::{Fault, Op};
use crate::ends::Ends;
use crate::item::Item;
use crate::links::new_names::{Kept, Name, NameAction, NewNames};
use crate::links::shared::{Original, SharedFiles, UnchangedName};
use crate::table::Key;
use crate::token::{NameStep, Side, Token};
use crate::wording::FailedStep;

/// Device and inode.
type Identity = (u64, u64);

/// Names being made, and files whose other names are to come.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) names: NewNames,
    pub(crate) shared: SharedFiles,
}

/// Next action of the caller about a name.
#[derive(Debug)]
pub(crate) enum NameEvent {
    /// Moves what is there to the directory of backups; the answer is for [`NameStep::BackUp`].
    BackUp(Key, Vec<u8>),
    /// The name is made.
    Made(Name),
    Failed(Name, FailedStep, Fault),
}

/// Action for a file that is known to have several names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LinkAction {
    /// It is the first name: it is copied, and the others wait for that.
    First,
    /// An earlier one was met: give it to [`Links::join`].
    Another,
    /// Too many files are remembered: it becomes a file of its own.
    TooMany,
}

impl Links {
    /// `most_shared`: files with several names that are remembered at a time.
    pub(crate) fn new(kept: Kept, most_shared: Option<usize>) -> Self {
        Self { names: NewNames::new(kept), shared: SharedFiles::new(most_shared) }
    }

    /// Meets a name of a file that is to be copied.
    pub(crate) fn meet(&mut self, identity: Identity, links: Option<u64>) -> LinkAction {
        if self.shared.is_known(identity) {
            LinkAction::Another
        } else if self.shared.add_first(identity, links) {
            LinkAction::First
        } else {
            LinkAction::TooMany
        }
    }

    /// Makes `item` another name of the copy of its file, once there is one.
    pub(crate) fn join(&mut self, identity: Identity, id: u64, item: Item) {
        if let Some((item, original)) = self.shared.meet(identity, id, item) {
            self.names.begin_hard(id, item, original);
        }
    }

    /// A name of a file with several, whose size and time are those of the source; `there` is what the target
    /// has under it. Returns true when it is made another name of what the target has of an earlier one, with
    /// an id from `new_id`.
    pub(crate) fn join_unchanged(
        &mut self,
        identity: Identity,
        item: &Item,
        there: Option<Identity>,
        new_id: impl FnOnce() -> u64,
    ) -> bool {
        match self.shared.meet_unchanged(identity, item, there) {
            UnchangedName::Stays => return false,
            UnchangedName::Waits => self.shared.wait(identity, new_id(), item.clone()),
            UnchangedName::Becomes(original) => self.names.begin_hard(new_id(), item.clone(), original),
        }
        true
    }

    /// The first name of a file with several has come to its end, with a `copy` that the others become names
    /// of. Returns those that have none.
    pub(crate) fn first_ended(&mut self, identity: Identity, copy: Option<Original>) -> Vec<(u64, Item)> {
        let waiting = self.shared.first_ended(identity, copy.clone());
        let Some(original) = copy else { return waiting };
        for (id, item) in waiting {
            self.names.begin_hard(id, item, original.clone());
        }
        Vec::new()
    }

    /// Carries out what is to be done for names, up to what is the caller's; `None` until an answer comes.
    pub(crate) fn next_event(&mut self, ends: &mut Ends) -> Option<NameEvent> {
        while let Some(action) = self.names.next_action(ends.link_order()) {
            let mut start = |side, op: Op<'_>, key, step| ends.start(side, op, Token::Name(key, step));
            match action {
                NameAction::Lstat(key, path) => start(Side::Source, Op::Lstat(&path), key, NameStep::Look),
                NameAction::ReadLink(key, path) => {
                    start(Side::Source, Op::ReadLink(&path), key, NameStep::Read);
                }
                NameAction::Symlink { key, step, to, link, order } => {
                    start(Side::Target, Op::Symlink { to: &to, link: &link, order }, key, step);
                }
                NameAction::Look(key, path) => start(Side::Target, Op::Lstat(&path), key, NameStep::Trial),
                NameAction::ReadBack(key, path) => {
                    start(Side::Target, Op::ReadLink(&path), key, NameStep::Trial);
                }
                NameAction::Undo(key, path) => start(Side::Target, Op::Remove(&path), key, NameStep::Trial),
                NameAction::UseOrder(order) => {
                    if let Some(target) = &mut ends.target {
                        target.set_link_order(order);
                    }
                }
                NameAction::Link { key, step, old, new } => {
                    start(Side::Target, Op::Link { old: &old, new: &new }, key, step);
                }
                NameAction::Remove(path) => ends.start(Side::Target, Op::Remove(&path), Token::Nothing),
                NameAction::Rename { key, old, new } => {
                    start(Side::Target, Op::Rename { old: &old, new: &new }, key, NameStep::Replace);
                }
                NameAction::SetLink { key, path, change } => {
                    start(Side::Target, Op::SetLink { path: &path, change }, key, NameStep::Finish);
                }
                NameAction::BackUp(key, path) => return Some(NameEvent::BackUp(key, path)),
                NameAction::Made(name) => return Some(NameEvent::Made(name)),
                NameAction::Failed(name, step, fault) => return Some(NameEvent::Failed(name, step, fault)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use crate::Direction;
    use crate::end::Info;

    use super::*;

    const FILE: Identity = (1, 2);

    /// Names at a target that is this host.
    struct Made {
        links: Links,
        ends: Ends,
        dir: tempfile::TempDir,
    }

    impl Made {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            std::fs::write(dir.path().join("first"), "content").expect("a file");
            Self { links: Links::new(Kept::default(), Some(1)), ends: Ends::new(Direction::Download), dir }
        }

        fn item(&self, name: &str) -> Item {
            let target = self.dir.path().join(name).to_string_lossy().into_owned().into_bytes();
            Item::top(b"from".to_vec(), target, Info { links: Some(3), ..Info::UNKNOWN })
        }

        fn copy(&self) -> Option<Original> {
            Some(Original { path: self.item("first").target, sum: None })
        }

        fn links_of_first(&self) -> u64 {
            std::fs::metadata(self.dir.path().join("first")).expect("the first").nlink()
        }

        /// Carries out all that there is to do; returns the ids of names that were made.
        fn made(&mut self) -> Vec<u64> {
            let mut made = Vec::new();
            loop {
                while let Some(event) = self.links.next_event(&mut self.ends) {
                    let NameEvent::Made(name) = event else { panic!("{event:?}") };
                    made.push(name.id);
                }
                match self.ends.next_answer() {
                    Some((Token::Name(key, step), outcome)) => self.links.names.on_answer(key, step, outcome),
                    Some(_) => {}
                    None => return made,
                }
            }
        }
    }

    #[test]
    fn names_that_waited_are_made_when_the_first_has_its_copy() {
        let mut names = Made::new();
        assert_eq!(names.links.meet(FILE, Some(3)), LinkAction::First);
        assert_eq!(names.links.meet((1, 3), Some(2)), LinkAction::TooMany);
        assert_eq!(names.links.meet(FILE, Some(3)), LinkAction::Another);
        names.links.join(FILE, 7, names.item("second"));
        assert!(names.made().is_empty(), "it waits");
        assert!(names.links.first_ended(FILE, names.copy()).is_empty());
        names.links.join(FILE, 8, names.item("third"));
        assert_eq!((names.made(), names.links_of_first()), (vec![7, 8], 3));
        assert!(names.links.names.is_empty());
    }

    #[test]
    fn names_without_a_copy_are_given_back() {
        let mut names = Made::new();
        names.links.meet(FILE, Some(3));
        names.links.join(FILE, 7, names.item("second"));
        let back = names.links.first_ended(FILE, None);
        assert_eq!(back.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [7]);
        assert!(names.made().is_empty());
    }

    #[test]
    fn an_unchanged_name_gets_an_id_only_where_it_is_made() {
        let mut names = Made::new();
        let (first, second) = (names.item("first"), names.item("second"));
        let no_id = || panic!("it stays");
        assert!(!names.links.join_unchanged(FILE, &first, Some((9, 1)), no_id));
        assert!(names.links.join_unchanged(FILE, &second, Some((9, 2)), || 5));
        assert_eq!((names.made(), names.links_of_first()), (vec![5], 2));
    }
}
