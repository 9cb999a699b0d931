//! What the target has in a directory, compared with the source when both are listed ([`crate::TreeSync`]).

use std::collections::HashSet;

use crate::end::{Done, Entry, Fault, FaultKind, Info, Kind, Op, Outcome, fault_of};
use crate::engine::Engine;
use crate::item::There;
use crate::names::{display_name, is_safe_name, join};
use crate::sync::deletions::{Extraneous, is_deletable};
use crate::sync::terms::Terms;
use crate::table::Key;
use crate::token::{DirStep, Side, Token};
use crate::tree::MAX_LISTS;
use crate::tree::target::{Comparing, ListState, TargetList};
use crate::wording;
use crate::wording::Deed;

impl Engine {
    /// Begins to list the directory that the target has.
    pub(super) fn list_target(&mut self, key: Key) {
        let Some(dir) = self.tree.dirs.get_mut(key).filter(|dir| dir.at_target.comparing.is_some()) else {
            return;
        };
        dir.at_target.list.state = ListState::Open;
        dir.asked();
        self.tree.waiting.open_targets += 1;
        let path = dir.item.target.clone();
        let list = Op::List { path: &path, pattern: b"" };
        self.ends.start(Side::Target, list, Token::Dir(key, DirStep::TargetList));
    }

    /// The handle is another file's, too: what it has listed may be another directory's.
    pub(in crate::engine) fn list_target_again(&mut self, key: Key) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let Some(handle) = dir.at_target.list.handle.take() else { return };
        self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
        self.tree.waiting.open_targets -= 1;
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let round = dir.at_target.list.round.wrapping_add(1);
        dir.at_target.list = TargetList { round, ..TargetList::default() };
        if let Some(comparing) = &mut dir.at_target.comparing {
            self.tree.waiting.comparing -= comparing.target.len();
            comparing.target.clear();
            self.list_target(key);
        }
    }

    pub(super) fn target_list_begun(&mut self, key: Key, outcome: Outcome) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let list = &mut dir.at_target.list;
        list.allowed = 2;
        match outcome {
            Ok(Done::Opened(handle, _)) => list.handle = Some(handle),
            Ok(Done::Listing(handle, entries)) => {
                if handle.is_none() {
                    list.state = ListState::Whole;
                    self.tree.waiting.open_targets -= 1;
                } else {
                    list.handle = handle;
                }
                self.absorb_target(key, entries);
            }
            outcome => {
                list.state = ListState::Failed;
                self.tree.waiting.open_targets -= 1;
                self.target_not_listed(key, &fault_of(outcome));
            }
        }
        self.list_more_of_target(key);
    }

    pub(super) fn target_listed(&mut self, key: Key, round: u8, outcome: Outcome) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let list = &mut dir.at_target.list;
        if round != list.round {
            return;
        }
        list.in_flight -= 1;
        list.allowed = (list.allowed + 1).min(MAX_LISTS);
        match outcome {
            Ok(Done::Listed(Some(entries))) if !entries.is_empty() => self.absorb_target(key, entries),
            // Several requests are in flight: one of the others may have failed before.
            Ok(Done::Listed(_)) if list.state == ListState::Open => list.state = ListState::Whole,
            Err(fault) if fault.kind == FaultKind::Eof => {
                if list.state == ListState::Open {
                    list.state = ListState::Whole;
                }
            }
            outcome => {
                let first = std::mem::replace(&mut list.state, ListState::Failed) != ListState::Failed;
                if first {
                    self.target_not_listed(key, &fault_of(outcome));
                }
            }
        }
        self.list_more_of_target(key);
    }

    /// Each name of the source can be looked at; what else is there is not known, and that matters where it is to be deleted.
    fn target_not_listed(&mut self, key: Key, fault: &Fault) {
        if let Some(dir) =
            self.tree.dirs.get(key).filter(|_| self.options.deletes() && fault.kind != FaultKind::Lost)
        {
            let text = wording::failed(self.plan.direction, Deed::ListTarget, &dir.item.target, fault);
            self.report.fail(text);
        }
    }

    fn absorb_target(&mut self, key: Key, mut entries: Vec<Entry>) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let Some(comparing) = &mut dir.at_target.comparing else { return };
        if let (None, Some(handle)) = (&self.ends.target, &dir.at_target.list.handle) {
            crate::local::look_at(handle, &mut entries);
        }
        // A name that leads elsewhere is no name of an entry.
        entries.retain(|entry| is_safe_name(&entry.name));
        self.tree.waiting.comparing += entries.len();
        comparing.target.append(&mut entries);
    }

    fn list_more_of_target(&mut self, key: Key) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let list = &mut dir.at_target.list;
        let Some(handle) = list.handle.clone() else { return };
        if list.state != ListState::Open || dir.at_target.comparing.is_none() {
            if list.in_flight == 0 {
                list.handle = None;
                self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
                self.tree.waiting.open_targets -= 1;
            }
            return;
        }
        // A local answer comes at once: more requests gain nothing.
        let allowed = if self.ends.target.is_some() { list.allowed } else { 1 };
        let (more, round) = (allowed.saturating_sub(list.in_flight), list.round);
        list.in_flight += more;
        for _ in 0..more {
            if let Some(dir) = self.tree.dirs.get_mut(key) {
                dir.asked();
            }
            self.ends.start(Side::Target, Op::ListMore(&handle), Token::Dir(key, DirStep::TargetMore(round)));
        }
    }

    /// Both ends have listed the directory: what differs waits to be copied, in the order of names.
    pub(super) fn compare_if_listed(&mut self, key: Key) {
        let may_fold = !self.options.dry_run && self.ends.may_fold_names();
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let list = &dir.at_target.list;
        let whole = dir.listing.complete && dir.listing.in_flight == 0;
        let known = matches!(list.state, ListState::Whole | ListState::Failed) && list.in_flight == 0;
        if !(whole && known && dir.making.ready) {
            return;
        }
        let seen = list.state == ListState::Whole;
        let Some(comparing) = dir.at_target.comparing.take() else { return };
        self.tree.waiting.comparing -= comparing.len();
        dir.at_target.there_else = if seen { There::Nothing } else { There::Unknown };
        let Comparing { mut source, mut target } = *comparing;
        source.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        source.dedup_by(|one, other| one.name == other.name);
        target.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        target.dedup_by(|one, other| one.name == other.name);
        self.note_extraneous(key, &source, &target);
        let mut target = target.into_iter().peekable();
        for entry in source {
            while target.next_if(|there| there.name < entry.name).is_some() {}
            let there = target.next_if(|there| there.name == entry.name).map(|there| there.info);
            self.compare_entry(key, entry, there, may_fold);
        }
        self.tree.walk_changed = true;
    }

    /// What the target has and the source has not is remembered, where it is to be deleted: not what the copy leaves out on
    /// purpose, and no unfinished file of a copy.
    fn note_extraneous(&mut self, key: Key, source: &[Entry], target: &[Entry]) {
        if !self.options.deletes() {
            return;
        }
        let Some(dir) = self.tree.dirs.get(key) else { return };
        let (directory, relative) = (dir.item.target.clone(), dir.relative.clone());
        let times = dir.item.info.times.filter(|_| self.options.preserve);
        let missing = |entry: &&Entry| source.binary_search_by(|one| one.name.cmp(&entry.name)).is_err();
        let mut entries: Vec<Entry> = target.iter().filter(missing).cloned().collect();
        entries.retain(|entry| is_deletable(&self.options.select, &relative, entry));
        if !self.options.dry_run && self.ends.may_fold_names() && !entries.is_empty() {
            // To a server for which both are one name it is the copy.
            let folded = |name: &[u8]| String::from_utf8_lossy(name).to_lowercase();
            let names: HashSet<String> = source.iter().map(|entry| folded(&entry.name)).collect();
            let twins = entries.extract_if(.., |entry| names.contains(&folded(&entry.name)));
            for twin in twins.collect::<Vec<_>>() {
                let path = display_name(&join(&directory, &twin.name));
                self.report.skip(format!(
                    "\"{path}\" is not deleted: the source has a name that differs by case only"
                ));
            }
        }
        if !entries.is_empty() {
            self.sync.deletions.add(Extraneous { directory, relative, times, entries });
        }
    }

    fn compare_entry(&mut self, key: Key, entry: Entry, there: Option<Info>, may_fold: bool) {
        let plainly = there.is_some_and(|there| {
            Terms::new(&self.options, &self.ends).is_plainly_unchanged(&entry.info, &there)
        });
        let leaves_links = !self.options.follow_links && !self.options.keep.links;
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        if entry.info.kind == Kind::Special || (entry.info.kind == Kind::Symlink && leaves_links) {
            let path = join(&dir.item.source, &entry.name);
            return self.report.skip(wording::skipped(self.plan.direction, &path));
        }
        // Two names that the target has both are two names to it.
        if may_fold && !dir.listing.twins.is_single(&entry.name) && there.is_none() {
            return dir.listing.twins.wait(entry);
        }
        if plainly {
            self.report.summary.unchanged += 1;
            if self.options.sums.is_some() {
                let (source, target) =
                    (join(&dir.item.source, &entry.name), join(&dir.item.target, &entry.name));
                self.report.unchanged(&self.plan.target, source, target, &entry.info, None);
            }
            return;
        }
        if let Some(there) = there.filter(|there| there.kind != Kind::Unknown) {
            dir.at_target.there.insert(entry.name.clone(), there);
        } else if there.is_some() {
            // The listing does not say what it is.
            dir.at_target.there_else = There::Unknown;
        }
        if entry.info.kind == Kind::Dir {
            dir.subdirs.push_back(entry);
            self.tree.waiting.subdirs += 1;
        } else {
            dir.files.push_back(entry);
            self.tree.waiting.files += 1;
        }
    }
}
