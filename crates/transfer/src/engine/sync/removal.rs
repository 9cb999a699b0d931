//! Deleting what the source does not have, when everything is copied and nothing has failed.
//!
//! A directory is listed and emptied before it is deleted; no link is followed. What was left out of the copy on purpose, and the
//! unfinished files of copies, stay, and with them the directories that they are in.

use crate::end::{Change, Done, Entry, Fault, FaultKind, Kind, Op, Outcome, fault_of};
use crate::engine::Engine;
use crate::item::{Item, There};
use crate::names::{base_name, display_name, is_safe_name, join};
use crate::sync::backup::Replaced;
use crate::sync::{DeletionStage, Doomed, Extraneous, Parent, Removal};
use crate::table::Key;
use crate::task::place::is_part_name;
use crate::token::{RemovalStep, Side, Token};
use crate::tree::Dir;
use crate::wording::Deed;
use crate::{Event, wording};

/// Deletions under way at a time.
const AT_A_TIME: usize = 64;

impl Engine {
    /// Where something that the command line names goes: it is no leftover of another source.
    pub(in crate::engine) fn note_top(&mut self, target: &[u8]) {
        if self.options.deletes() && !self.sync.tops.insert(target.to_vec()) {
            let path = display_name(target);
            self.report.fail(format!("\"{path}\": --delete needs another place for each of several sources"));
        }
    }

    /// An entry that the source does not have is neither left out on purpose nor the unfinished file of a copy.
    pub(in crate::engine) fn is_deletable(&self, relative: &[u8], entry: &Entry) -> bool {
        let path = join(relative, &entry.name);
        !matches!(&*entry.name, b"." | b"..")
            && is_safe_name(&entry.name)
            && !is_part_name(&entry.name)
            && self.options.select.wants(&path, entry.info.kind == Kind::Dir)
    }

    /// Remembers what is to be deleted. More than may be need not be remembered.
    pub(in crate::engine) fn delete_later(&mut self, extraneous: Extraneous) {
        let known: usize = match self.options.most_deletions() {
            u64::MAX => 0,
            _ => self.sync.extraneous.iter().map(|each| each.entries.len()).sum(),
        };
        if known as u64 <= self.options.most_deletions() {
            self.sync.extraneous.push_back(extraneous);
        }
    }

    /// Goes on with deleting, where it is time for that.
    pub(in crate::engine) fn sync_deletions(&mut self) {
        if self.sync.stage == DeletionStage::Waiting && self.all_is_copied() {
            self.begin_deletions();
        }
        while self.sync.stage == DeletionStage::Deleting {
            self.delete_more();
            // Answers of this host are there at once.
            if self.ends.all_answered() {
                break;
            }
            self.handle_answers();
        }
    }

    /// Nothing is left to be copied but what waits for a deletion.
    fn all_is_copied(&self) -> bool {
        self.prepare.finished()
            && self.tree.top.is_empty()
            && self.tasks.files.len() == 0
            && self.batches.is_empty()
            && self.links.names.len() == 0
            && self.sync.compares.len() == 0
            && self.leftovers.removing.len() == 0
            && self.ends.all_answered()
            && self.tree.dirs.values().all(Dir::only_waits)
    }

    fn begin_deletions(&mut self) {
        if self.report.is_over() {
            return self.leave_deletions();
        }
        if self.report.summary.failures > 0 {
            self.report.skip("there were errors: nothing is deleted".to_owned());
            return self.leave_deletions();
        }
        self.sync.stage = DeletionStage::Deleting;
        for item in std::mem::take(&mut self.sync.blocked) {
            let above = item.parent.and_then(|key| self.tree.dirs.get(key)).map_or(&b""[..], Dir::relative);
            let relative = if above.is_empty() && item.parent.is_none() {
                Vec::new()
            } else {
                join(above, base_name(&item.source))
            };
            let path = item.target.clone();
            self.sync.doomed.push(Doomed {
                path,
                relative,
                is_dir: true,
                parent: Parent::Item(Box::new(item)),
            });
        }
    }

    /// Nothing is deleted any more, and what waits for that is not copied.
    pub(in crate::engine) fn leave_deletions(&mut self) {
        self.sync.stage = DeletionStage::Done;
        self.sync.extraneous.clear();
        for item in std::mem::take(&mut self.sync.blocked) {
            self.not_replaced(&item);
        }
        for doomed in std::mem::take(&mut self.sync.doomed) {
            self.kept(doomed.parent);
        }
    }

    fn not_replaced(&mut self, item: &Item) {
        if !self.report.is_over() {
            let fault = Fault::other("it is a directory that stays");
            self.report.fail(super::compare::not_cleared(item, &fault));
        }
        self.child_finished(item.parent);
    }

    fn delete_more(&mut self) {
        while self.sync.removals.len() < AT_A_TIME {
            if let Some(doomed) = self.sync.doomed.pop() {
                self.begin_deletion(doomed);
            } else if let Some(extraneous) = self.sync.extraneous.pop_front() {
                self.begin_directory(extraneous);
            } else {
                if self.sync.removals.len() == 0 {
                    self.sync.stage = DeletionStage::Done;
                }
                return;
            }
        }
        // All of them may be directories that wait for what is in them: the deepest goes on.
        if self.sync.removals.values().all(|removal| !removal.asked && removal.handle.is_none())
            && let Some(doomed) = self.sync.doomed.pop()
        {
            self.begin_deletion(doomed);
        }
    }

    /// A directory that stays, with things in it that do not.
    fn begin_directory(&mut self, extraneous: Extraneous) {
        let Extraneous { directory, relative, times, entries } = extraneous;
        let key = self.sync.removals.insert(Removal { times, ..Removal::new(directory, relative, None) });
        self.sync.doom(key, entries);
        self.deletion_goes_on(key);
    }

    fn begin_deletion(&mut self, doomed: Doomed) {
        let Doomed { path, relative, is_dir, parent } = doomed;
        let of_another = self.sync.tops.contains(&path) && matches!(parent, Parent::Removal(_));
        if self.sync.over
            || of_another
            || self.sync.backups.root(&self.plan.target).is_some_and(|root| root == path)
        {
            return self.kept(parent);
        }
        let key = self.sync.removals.insert(Removal::new(path.clone(), relative, Some(parent)));
        if !is_dir {
            return self.delete(key, false);
        }
        let op = match self.ends.target {
            Some(_) => Op::List { path: &path, pattern: b"" },
            None => Op::ListPlain(&path),
        };
        self.ask_removal(key, op, RemovalStep::List);
    }

    fn ask_removal(&mut self, key: Key, op: Op<'_>, step: RemovalStep) {
        if let Some(removal) = self.sync.removals.get_mut(key) {
            removal.open += 1;
            self.ends.start(Side::Target, op, Token::Removal(key, step));
        }
    }

    /// Deletes the thing itself, if one more may be deleted.
    fn delete(&mut self, key: Key, is_dir: bool) {
        let most = self.options.most_deletions();
        if self.sync.begun >= most {
            if !std::mem::replace(&mut self.sync.over, true) {
                self.report.fail(format!("--max-delete {most}: there is more to delete, which stays"));
            }
            return self.removal_failed(key);
        }
        self.sync.begun += 1;
        let Some(removal) = self.sync.removals.get_mut(key) else { return };
        removal.asked = true;
        let path = removal.path.clone();
        if self.options.dry_run {
            self.report.summary.deleted += 1;
            self.report.event(Event::PlannedDelete { target: path });
            return self.removed(key);
        }
        if !is_dir && self.sync.backups.are_wanted() {
            if let Some(removal) = self.sync.removals.get_mut(key) {
                removal.open += 1;
            }
            return self.back_up(path, Replaced::Deleted(key));
        }
        let op = if is_dir { Op::RemoveDir(&path) } else { Op::Remove(&path) };
        self.ask_removal(key, op, RemovalStep::Delete);
    }

    pub(in crate::engine) fn removal_answer(&mut self, key: Key, step: RemovalStep, outcome: Outcome) {
        let direction = self.plan.direction;
        let Some(removal) = self.sync.removals.get_mut(key) else { return };
        removal.open -= 1;
        let mut listed = match (step, outcome) {
            (RemovalStep::List, Ok(Done::Opened(handle, _))) => {
                removal.handle = Some(handle);
                Vec::new()
            }
            (RemovalStep::List, Ok(Done::Listing(handle, entries))) => {
                removal.handle = handle;
                entries
            }
            (RemovalStep::ListMore, Ok(Done::Listed(Some(entries)))) if !entries.is_empty() => entries,
            (RemovalStep::ListMore, Ok(Done::Listed(_))) => return self.removal_listed(key),
            (RemovalStep::ListMore, Err(fault)) if fault.kind == FaultKind::Eof => {
                return self.removal_listed(key);
            }
            (RemovalStep::List | RemovalStep::ListMore, outcome) => {
                let fault = fault_of(outcome);
                // It is gone, and so is all that was in it.
                if fault.kind != FaultKind::NotFound {
                    self.removal_fault(key, Deed::ListTarget, &fault);
                    return self.removal_failed(key);
                }
                return self.removed(key);
            }
            (RemovalStep::Delete, Ok(_)) => {
                let target = removal.path.clone();
                self.report.summary.deleted += 1;
                self.report.event(Event::Deleted { target });
                return self.removed(key);
            }
            (RemovalStep::Delete, Err(fault)) if fault.kind == FaultKind::NotFound => {
                return self.removed(key);
            }
            (RemovalStep::Delete, outcome) => {
                self.removal_fault(key, Deed::DeleteTarget, &fault_of(outcome));
                return self.removal_failed(key);
            }
            (RemovalStep::Restore, outcome) => {
                let path = removal.path.clone();
                self.sync.removals.remove(key);
                if let Err(fault) = outcome
                    && fault.kind != FaultKind::Lost
                {
                    self.report.fail(wording::failed(direction, Deed::FinishDir, &path, &fault));
                }
                return;
            }
        };
        removal.entries.append(&mut listed);
        match removal.handle.clone() {
            Some(handle) => self.ask_removal(key, Op::ListMore(&handle), RemovalStep::ListMore),
            None => self.removal_listed(key),
        }
    }

    fn removal_fault(&mut self, key: Key, deed: Deed, fault: &Fault) {
        if let Some(removal) = self.sync.removals.get(key)
            && fault.kind != FaultKind::Lost
        {
            let text = wording::failed(self.plan.direction, deed, &removal.path, fault);
            self.report.fail(text);
        }
    }

    /// All that is in a directory is known.
    fn removal_listed(&mut self, key: Key) {
        if self.ends.target.is_none()
            && let Some(removal) = self.sync.removals.get_mut(key)
            && let Some(handle) = &removal.handle
        {
            crate::local::look_at(handle, &mut removal.entries);
        }
        let Some(removal) = self.sync.removals.get_mut(key) else { return };
        let (handle, relative) = (removal.handle.take(), removal.relative.clone());
        let mut entries = std::mem::take(&mut removal.entries);
        if let Some(handle) = handle {
            self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
        }
        entries.retain(|entry| !matches!(&*entry.name, b"." | b".."));
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let all = entries.len();
        entries.retain(|entry| self.is_deletable(&relative, entry));
        if let Some(removal) = self.sync.removals.get_mut(key) {
            removal.keeps |= entries.len() < all;
        }
        self.sync.doom(key, entries);
        self.deletion_goes_on(key);
    }

    /// Deletes a directory that is empty by now, or ends one that stays.
    fn deletion_goes_on(&mut self, key: Key) {
        let Some(removal) = self.sync.removals.get_mut(key) else { return };
        if removal.open > 0 || removal.handle.is_some() {
            return;
        }
        if removal.parent.is_some() {
            if !removal.keeps {
                return self.delete(key, true);
            }
            let path = display_name(&removal.path);
            if !self.sync.over && !self.report.summary.lost && !self.report.cancelled {
                self.report.skip(format!("\"{path}\" is not deleted: something in it stays"));
            }
            return self.removal_failed(key);
        }
        // A deletion has set its time.
        let times = removal.times.filter(|_| removal.touched && !self.options.dry_run);
        if times.is_none() || self.report.summary.lost {
            self.sync.removals.remove(key);
            return;
        }
        let path = removal.path.clone();
        let change = Change { times, ..Change::default() };
        self.ask_removal(key, Op::SetPath { path: &path, change }, RemovalStep::Restore);
    }

    /// It is gone, or would be.
    fn removed(&mut self, key: Key) {
        let Some(removal) = self.sync.removals.remove(key) else { return };
        match removal.parent {
            Some(Parent::Removal(above)) => {
                if let Some(above) = self.sync.removals.get_mut(above) {
                    above.open -= 1;
                    above.touched = true;
                }
                self.deletion_goes_on(above);
            }
            Some(Parent::Item(mut item)) => {
                item.there = There::Nothing;
                item.compared = true;
                if self.report.is_over() {
                    return self.child_finished(item.parent);
                }
                self.tree.touch_dir(item.parent);
                self.copy_item(*item);
            }
            None => {}
        }
    }

    /// It stays.
    fn removal_failed(&mut self, key: Key) {
        let Some(removal) = self.sync.removals.remove(key) else { return };
        if let Some(handle) = removal.handle {
            self.ends.start(Side::Target, Op::Close(handle), Token::Nothing);
        }
        if let Some(parent) = removal.parent {
            self.kept(parent);
        }
    }

    fn kept(&mut self, parent: Parent) {
        match parent {
            Parent::Removal(above) => {
                if let Some(above) = self.sync.removals.get_mut(above) {
                    above.open -= 1;
                    above.keeps = true;
                }
                self.deletion_goes_on(above);
            }
            Parent::Item(item) => self.not_replaced(&item),
        }
    }
}
