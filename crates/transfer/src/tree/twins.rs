//! Names of one directory that differ by case only, on servers that may take them for one.
//!
//! The second of two such names waits until everything else in its directory is in its place. If something is under it
//! then, although the directory is new, the server takes it for the first name: it is not copied, and is reported.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use crate::end::{Entry, FaultKind, Kind, Op, Outcome};
use crate::ends::Ends;
use crate::item::There;
use crate::names::{display_name, join};
use crate::report::Reporter;
use crate::table::Key;
use crate::token::{DirStep, Side, Token};
use crate::tree::walk::Tree;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Twins {
    /// Hashes of all names, in small letters.
    pub(crate) folded: HashSet<u64>,
    pub(crate) hasher: RandomState,
    pub(crate) waiting: VecDeque<Entry>,
    /// It is being looked at.
    pub(crate) asked: Option<Entry>,
}

impl Twins {
    /// Notes a name; false where another one differs from it by case only.
    pub(crate) fn is_single(&mut self, name: &[u8]) -> bool {
        let folded = String::from_utf8_lossy(name).to_lowercase();
        self.folded.insert(self.hasher.hash_one(folded))
    }

    pub(crate) fn wait(&mut self, entry: Entry) {
        self.waiting.push_back(entry);
    }
}

impl Tree {
    /// Asks about the next of these names of a directory in which everything else is done. False when there is none.
    pub(crate) fn look_at_twin(&mut self, key: Key, ends: &mut Ends) -> bool {
        let Some(dir) = self.dirs.get_mut(key) else { return false };
        let Some(entry) = dir.listing.twins.waiting.pop_front() else { return false };
        let path = join(&dir.item.target, &entry.name);
        dir.listing.twins.asked = Some(entry);
        dir.asked();
        ends.start(Side::Target, Op::Lstat(&path), Token::Dir(key, DirStep::Twin));
        true
    }

    /// Starts the copy of the name that was asked about, or reports that it is another file's.
    pub(crate) fn twin_answer(&mut self, key: Key, outcome: &Outcome, report: &mut Reporter) {
        let Some(dir) = self.dirs.get_mut(key) else { return };
        let Some(entry) = dir.listing.twins.asked.take().filter(|_| !dir.failed) else { return };
        if matches!(outcome, Err(fault) if fault.kind == FaultKind::Lost) {
            return;
        }
        // A name that was not listed and is there is another one's.
        let unlisted = dir.created() || dir.at_target.there_else == There::Nothing;
        if outcome.is_ok() && unlisted {
            let path = display_name(&join(&dir.item.target, &entry.name));
            let text = "the server takes its name for that of another file, which differs by case only";
            let relative = join(&dir.relative, &entry.name);
            report.fail(format!("\"{path}\" is not copied: {text}"));
            return report.missed(Some(relative));
        }
        let (list, waiting) = match entry.info.kind {
            Kind::Dir => (&mut dir.subdirs, &mut self.waiting.subdirs),
            _ => (&mut dir.files, &mut self.waiting.files),
        };
        list.push_back(entry);
        *waiting += 1;
        if !self.walk.contains(&key) {
            self.walk.push(key);
        }
        self.walk_changed = true;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::end::Info;
    use crate::item::Item;
    use crate::tree::Dir;
    use crate::{Direction, Event, Options};

    use super::*;

    /// A new directory `d` of this host in which `a` is in its place and `A` waits.
    fn begin(top: &[u8]) -> (Tree, Key) {
        let mut tree = Tree::new(HashSet::new());
        let item = Item::top(b"from/d".to_vec(), join(top, b"d"), Info::UNKNOWN);
        let mut dir = Dir::new(item, b"d".to_vec(), false);
        dir.making.created = true;
        let twins = &mut dir.listing.twins;
        assert!(twins.is_single(b"a") && !twins.is_single(b"A"));
        twins.wait(Entry { name: b"A"[..].into(), info: Info { kind: Kind::File, ..Info::UNKNOWN } });
        let key = tree.dirs.insert(dir);
        (tree, key)
    }

    #[test]
    fn second_name_is_copied_only_where_nothing_has_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let top = dir.path().to_string_lossy().into_owned().into_bytes();
        for taken in [false, true] {
            if taken {
                fs::create_dir(dir.path().join("d")).expect("a directory");
                fs::write(dir.path().join("d/A"), "").expect("a file");
            }
            let (mut tree, key) = begin(&top);
            let mut ends = Ends::new(Direction::Download);
            let mut report = Reporter::new(&Options::default());
            assert!(tree.look_at_twin(key, &mut ends));
            assert!(!tree.look_at_twin(key, &mut ends), "no other name waits");
            let (_, outcome) = ends.next_answer().expect("an answer");
            tree.twin_answer(key, &outcome, &mut report);
            assert_eq!(
                (tree.waiting.files, report.summary.failures),
                (usize::from(!taken), u64::from(taken))
            );
            assert_eq!(matches!(report.poll(), Some(Event::Failed { .. })), taken);
        }
    }
}
