//! Copies names that differ by case only last, on servers that may take them for one
//! ([`CaseCollisions`](super::twins::CaseCollisions)).

use crate::end::{FaultKind, Op, Outcome};
use crate::ends::Ends;
use crate::item::TargetEntry;
use crate::names::{display_name, join};
use crate::report::Reporter;
use crate::table::Key;
use crate::token::{DirStep, Side, Token};
use crate::tree::walk::Tree;

impl Tree {
    /// Asks about the next of these names of a directory in which everything else is done. False when there
    /// is none.
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
        let unlisted = dir.created() || dir.at_target.there_else == TargetEntry::Nothing;
        if outcome.is_ok() && unlisted {
            let path = display_name(&join(&dir.item.target, &entry.name));
            let text = "the server takes its name for that of another file, which differs by case only";
            let relative = join(&dir.relative, &entry.name);
            report.fail(format!("\"{path}\" is not copied: {text}"));
            return report.missed(Some(relative));
        }
        self.queue_entry(key, entry);
        if !self.walk.contains(&key) {
            self.enter_walk(key);
        }
        self.walk_changed = true;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;

    use crate::end::{Entry, Info, Kind};
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
