//! Listings of directories: read in parts, and sorted into files and directories.

use crate::end::{Done, Entry, Fault, FaultKind, Kind, Op, Outcome, fault_of};
use crate::ends::Ends;
use crate::journal::is_journal;
use crate::names::{display_name, is_safe_name, join};
use crate::report::Reporter;
use crate::table::Key;
use crate::token::{DirStep, Side, Token};
use crate::tree::MAX_LISTS;
use crate::tree::walk::{ENTRIES_HELD, Tree};
use crate::wording::FailedStep;
use crate::{Direction, Options, Selection, wording};

/// The parts of the engine that a listing uses besides the tree.
#[derive(Debug)]
pub(crate) struct ListingContext<'a> {
    pub(crate) direction: Direction,
    pub(crate) options: &'a Options,
    pub(crate) ends: &'a mut Ends,
    pub(crate) report: &'a mut Reporter,
}

impl Tree {
    /// The directory's handle is another file's, too: what it lists from now on may be another directory's.
    pub(crate) fn list_again(&mut self, key: Key, ends: &mut Ends) {
        let Some(dir) = self.dirs.get_mut(key) else { return };
        let Some(handle) = dir.listing.handle.take() else { return };
        let path = dir.item.source.clone();
        let listed = dir.listing.complete;
        dir.listing.in_flight = 0;
        dir.listing.seen.begin_again();
        ends.start(Side::Source, Op::Close(handle), Token::Nothing);
        if listed {
            return self.dir_closed(key);
        }
        if let Some(dir) = self.dirs.get_mut(key) {
            dir.asked();
        }
        self.waiting.lists += 1;
        let list = Op::List { path: &path, pattern: b"" };
        ends.start(Side::Source, list, Token::Dir(key, DirStep::List));
    }

    /// Takes the answer to the first request.
    pub(crate) fn list_begun(&mut self, key: Key, outcome: Outcome, lister: &mut ListingContext<'_>) {
        self.waiting.lists -= 1;
        let Some(dir) = self.dirs.get_mut(key) else { return };
        match outcome {
            Ok(Done::Opened(handle, _)) => dir.listing.handle = Some(handle),
            Ok(Done::Listing(handle, entries)) => {
                dir.listing.complete = handle.is_none();
                dir.listing.handle = handle;
                if dir.listing.complete {
                    self.dir_closed(key);
                }
                self.absorb(key, entries, lister);
            }
            outcome => {
                self.dir_closed(key);
                self.list_failed(key, fault_of(outcome), lister);
            }
        }
        self.list_more(key, lister.ends);
    }

    /// Takes the answer to a request for more, of the listing's `round`.
    pub(crate) fn listed(&mut self, key: Key, round: u8, outcome: Outcome, lister: &mut ListingContext<'_>) {
        self.waiting.lists -= 1;
        let Some(dir) = self.dirs.get_mut(key).filter(|dir| dir.listing.seen.round() == round) else {
            return;
        };
        dir.listing.in_flight -= 1;
        dir.listing.allowed = (dir.listing.allowed + 1).min(MAX_LISTS);
        match outcome {
            // No entries and no EOF would go on for ever.
            Ok(Done::Listed(Some(entries))) if !entries.is_empty() => self.absorb(key, entries, lister),
            Ok(Done::Listed(_)) => dir.listing.complete = true,
            Err(fault) if fault.kind == FaultKind::Eof => dir.listing.complete = true,
            outcome => self.list_failed(key, fault_of(outcome), lister),
        }
        self.list_more(key, lister.ends);
    }

    fn list_failed(&mut self, key: Key, fault: Fault, lister: &mut ListingContext<'_>) {
        let Some(dir) = self.dirs.get_mut(key) else { return };
        let first = !dir.listing.complete;
        dir.listing.complete = true;
        let source = dir.item.source.clone();
        if first && fault.kind != FaultKind::Lost {
            let relative = dir.relative.clone();
            lister.report.fail(wording::failed(lister.direction, FailedStep::ListSource, &source, &fault));
            lister.report.blame(&source);
            lister.report.missed(Some(relative));
        }
    }

    /// Sorts the entries of a part of the listing.
    fn absorb(&mut self, key: Key, mut entries: Vec<Entry>, lister: &mut ListingContext<'_>) {
        let ListingContext { direction, options, ends, report } = lister;
        let may_fold = !options.dry_run && ends.may_fold_names();
        let of_others = ends.is_foreign(Side::Source);
        let Some(dir) = self.dirs.get_mut(key) else { return };
        if dir.failed {
            return;
        }
        if let (None, Some(handle), Some(_)) = (&ends.source, &dir.listing.handle, &dir.at_target.comparing) {
            crate::local::look_at(handle, &mut entries);
        }
        let chosen = options.select != Selection::default();
        let (mut suspects, mut specials) = (Vec::new(), Vec::new());
        let (files, subdirs) = (dir.unstarted.files.len(), dir.unstarted.subdirs.len());
        for entry in entries {
            if *entry.name == *b"." || *entry.name == *b".." {
                continue;
            }
            if of_others && !dir.listing.seen.is_new(&entry.name) {
                continue;
            }
            if !is_safe_name(&entry.name) {
                suspects.push(entry.name);
            } else {
                let journal = options.placing.journal.as_deref().filter(|_| ends.source.is_none());
                if journal.is_some_and(|journal| is_journal(journal, &dir.item.source, &entry.name)) {
                    continue;
                }
                let path = if chosen { join(&dir.relative, &entry.name) } else { Vec::new() };
                if chosen {
                    self.expected.remove(&path);
                }
                if chosen && !options.select.wants(&path, entry.info.kind == Kind::Dir) {
                    continue;
                }
                if let Some(comparing) = &mut dir.at_target.comparing {
                    comparing.source.push(entry);
                    self.waiting.comparing += 1;
                    continue;
                }
                if may_fold && !dir.listing.twins.is_single(&entry.name) {
                    dir.listing.twins.wait(entry);
                    continue;
                }
                match entry.info.kind {
                    Kind::Dir => dir.unstarted.subdirs.push_back(entry),
                    Kind::Special => specials.push(join(&dir.item.source, &entry.name)),
                    Kind::Symlink if !options.follow_links && !options.keep.links => {
                        specials.push(join(&dir.item.source, &entry.name));
                    }
                    Kind::File | Kind::Symlink | Kind::Unknown => dir.unstarted.files.push_back(entry),
                }
            }
        }
        let (files, subdirs) = (dir.unstarted.files.len() - files, dir.unstarted.subdirs.len() - subdirs);
        self.waiting.files += files;
        self.waiting.subdirs += subdirs;
        let path = display_name(&dir.item.source);
        for name in suspects {
            let name = display_name(&name);
            report.fail(format!("Server sent suspect path \"{name}\" during readdir of \"{path}\""));
            report.missed(None);
        }
        for special in specials {
            report.skip(wording::skipped(*direction, &special));
        }
    }

    /// Keeps the listing of a directory going, or ends it.
    pub(crate) fn list_more(&mut self, key: Key, ends: &mut Ends) {
        let Some(dir) = self.dirs.get_mut(key) else { return };
        let Some(handle) = dir.listing.handle.clone() else { return };
        if dir.listing.complete {
            dir.listing.seen.forget();
            if dir.listing.in_flight == 0 {
                dir.listing.handle = None;
                self.dir_closed(key);
                ends.start(Side::Source, Op::Close(handle), Token::Nothing);
            }
            return;
        }
        // If only one may be open at a time, waiting ones are opened when this one is closed.
        let alone = ends.source.as_ref().is_some_and(|source| source.one_at_a_time());
        let few = alone || dir.waiting() == 0 || self.waiting.files + self.waiting.subdirs < ENTRIES_HELD;
        // A local answer comes at once: more requests gain nothing.
        let allowed = if ends.source.is_some() { dir.listing.allowed } else { 1 };
        let round = dir.listing.seen.round();
        let more = if few { allowed.saturating_sub(dir.listing.in_flight) } else { 0 };
        dir.listing.in_flight += more;
        self.waiting.lists += more;
        dir.outstanding += more;
        for _ in 0..more {
            ends.start(Side::Source, Op::ListMore(&handle), Token::Dir(key, DirStep::ListMore(round)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::Event;
    use crate::end::Info;
    use crate::item::Item;
    use crate::tree::Dir;

    use super::*;

    #[test]
    fn entries_are_sorted_by_kind_and_unsafe_names_are_failures() {
        let entry =
            |name: &str, kind| Entry { name: name.as_bytes().into(), info: Info { kind, ..Info::UNKNOWN } };
        let mut tree = Tree::new(HashSet::new());
        let item = Item::top(b"from".to_vec(), b"to".to_vec(), Info::UNKNOWN);
        let key = tree.dirs.insert(Dir::new(item, Vec::new(), false));
        (tree.waiting.lists, tree.waiting.open_dirs) = (1, 1);
        let options = Options::default();
        let (mut ends, mut report) = (Ends::new(Direction::Download), Reporter::new(&options));
        let mut lister = ListingContext {
            direction: Direction::Download,
            options: &options,
            ends: &mut ends,
            report: &mut report,
        };
        let entries = vec![
            entry(".", Kind::Dir),
            entry("dir", Kind::Dir),
            entry("file", Kind::File),
            entry("fifo", Kind::Special),
            entry("../up", Kind::File),
        ];
        tree.list_begun(key, Ok(Done::Listing(None, entries)), &mut lister);
        assert_eq!((tree.waiting.files, tree.waiting.subdirs), (1, 1));
        assert_eq!((tree.waiting.lists, tree.waiting.open_dirs), (0, 0), "the listing is complete");
        let told: Vec<_> = std::iter::from_fn(|| report.poll()).collect();
        assert!(matches!(&told[..], [Event::Failed { .. }, Event::Skipped { .. }]), "{told:?}");
    }
}
