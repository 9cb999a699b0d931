//! Deleting what the source does not have, when everything is copied and nothing has failed.
//!
//! Commands in, steps out: the caller fetches each step ([`Deletions::next_step`]), carries it out at the
//! target's end or reports it, and gives the answer back ([`Deletions::on_answer`]). A directory is listed
//! and emptied before it is deleted; no link is followed. What was left out of the copy on purpose, and the
//! unfinished files of copies, stay, and with them the directories that they are in.
//!
//! The order is that of the paths. Directories are listed ahead, and wait until it is their turn.

mod removal;
mod stack;

use std::collections::{HashSet, VecDeque};

use crate::TreeSync;
use crate::end::{Done, Fault, FaultKind, Handle, Outcome, Times, fault_of};
use crate::item::{Item, TargetEntry};
use crate::names::by_components;
use crate::select::Selection;
use crate::sync::deletions::removal::{Contents, Parent, Pending, Removal, Waiting};
use crate::sync::extraneous::{Extraneous, is_deletable};
use crate::table::{Key, Table};
use crate::token::RemovalStep;
use crate::wording::FailedStep;

/// Entries beyond `--max-delete` that are remembered before the last ones in order are forgotten.
const SPARE: u64 = 1024;

/// Next action of the caller.
#[derive(Debug)]
pub(crate) enum DeletionStep {
    /// Opens a directory itself, no link to one; the answer is for [`RemovalStep::List`].
    List(Key, Vec<u8>),
    /// Reads more of it; the answer is for [`RemovalStep::ListMore`].
    ListMore(Key, Handle),
    Close(Handle),
    /// The answer is for [`RemovalStep::Delete`], as that of the next two.
    Remove(Key, Vec<u8>),
    RemoveDir(Key, Vec<u8>),
    /// Moves it to the directory of backups instead.
    BackUp(Key, Vec<u8>),
    /// Sets the times of a directory that things were deleted in; the answer is for [`RemovalStep::Restore`].
    Restore(Key, Vec<u8>, Times),
    /// Reports that this is deleted, or would be.
    Deleted(Vec<u8>),
    /// Reports that something failed.
    Failed(FailedStep, Vec<u8>, Fault),
    /// Reports that `--max-delete` is reached.
    MostReached(u64),
    /// Reports that a directory stays because of what is in it.
    NotEmpty(Vec<u8>),
    /// Copies this: what was in its way is gone.
    Copy(Item),
    /// Does not copy this: what is in its way stays.
    DoNotCopy(Item),
}

/// Stage of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Something may still be copied.
    Waiting,
    Deleting,
    /// Nothing is to be deleted, or no more.
    Done,
}

/// Pending and running deletions.
#[derive(Debug)]
pub(crate) struct Deletions {
    /// Deletions at most.
    most: u64,
    dry_run: bool,
    stage: Stage,
    /// The directory that backups go to, where what is deleted is to be moved away.
    backups: Option<Vec<u8>>,
    extraneous: VecDeque<Extraneous>,
    /// Entries of `extraneous`.
    known: u64,
    /// Items whose targets have a directory in the way, and their paths from the top of the tree.
    blocked: Vec<(Item, Vec<u8>)>,
    /// Targets of what the command line names.
    tops: HashSet<Vec<u8>>,
    /// What is to be deleted next is last.
    pending: VecDeque<Waiting>,
    removals: Table<Removal>,
    /// Answers awaited.
    in_flight: usize,
    /// Deletions that were begun.
    begun: u64,
    /// It was reported that there are more than may be deleted.
    over: bool,
    steps: VecDeque<DeletionStep>,
}

impl Deletions {
    pub(crate) fn new(options: Option<&TreeSync>, dry_run: bool) -> Self {
        let deletes = options.is_some_and(|options| options.delete);
        Self {
            most: options.and_then(|options| options.max_delete).unwrap_or(u64::MAX),
            dry_run,
            stage: if deletes { Stage::Waiting } else { Stage::Done },
            backups: None,
            extraneous: VecDeque::new(),
            known: 0,
            blocked: Vec::new(),
            tops: HashSet::new(),
            pending: VecDeque::new(),
            removals: Table::new(),
            in_flight: 0,
            begun: 0,
            over: false,
            steps: VecDeque::new(),
        }
    }

    /// True until [`Deletions::begin`] or [`Deletions::stop`].
    pub(crate) fn are_waiting(&self) -> bool {
        self.stage == Stage::Waiting
    }

    /// Returns true while [`Deletions::start_more`] may find something to do.
    pub(crate) fn are_under_way(&self) -> bool {
        self.stage == Stage::Deleting
    }

    /// Returns true when nothing is left to be deleted.
    pub(crate) fn are_finished(&self) -> bool {
        self.stage == Stage::Done && self.removals.len() == 0
    }

    /// Notes the target of something that the command line names: it is no leftover of another source. False
    /// where another source has it already.
    pub(crate) fn add_top(&mut self, target: &[u8]) -> bool {
        self.tops.insert(target.to_vec())
    }

    /// Remembers what is to be deleted. More than may be need not be remembered.
    pub(crate) fn add(&mut self, extraneous: Extraneous) {
        self.known += extraneous.entries.len() as u64;
        self.extraneous.push_back(extraneous);
        if self.known > self.most.saturating_mul(2).saturating_add(SPARE) {
            self.sort();
            // One more than may be deleted shows that there are more.
            let mut known = 0;
            self.extraneous.retain(|each| {
                let wanted = known <= self.most;
                known += if wanted { each.entries.len() as u64 } else { 0 };
                wanted
            });
            self.known = known;
        }
    }

    fn sort(&mut self) {
        let by_path = |one: &Extraneous, other: &Extraneous| by_components(&one.directory, &other.directory);
        self.extraneous.make_contiguous().sort_by(by_path);
    }

    /// A directory of the target has to go before `item` can be copied; `relative` is its path from the top
    /// of the tree.
    pub(crate) fn delete_before(&mut self, item: Item, relative: Vec<u8>) {
        self.blocked.push((item, relative));
    }

    /// Everything is copied. `backups`: the directory that what is deleted is moved to.
    pub(crate) fn begin(&mut self, backups: Option<Vec<u8>>) {
        self.backups = backups;
        self.stage = Stage::Deleting;
        self.sort();
        let mut blocked = std::mem::take(&mut self.blocked);
        blocked.sort_by(|(one, _), (other, _)| by_components(&one.target, &other.target));
        for (item, relative) in blocked {
            let path = item.target.clone();
            let parent = Parent::Item(Box::new(item));
            self.pending.push_front(Waiting::New(Pending { path, relative, is_dir: true, parent }));
        }
    }

    /// Nothing is deleted any more, and what waits for that is not copied.
    pub(crate) fn stop(&mut self) {
        self.stage = Stage::Done;
        self.extraneous.clear();
        for (item, _) in std::mem::take(&mut self.blocked) {
            self.steps.push_back(DeletionStep::DoNotCopy(item));
        }
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                Waiting::New(pending) => self.keep(pending.parent),
                // It ends with its last answer.
                Waiting::Begun(key) => self.end_if_unasked(key),
            }
        }
    }

    /// The next step to carry out; `None` until an answer comes or [`Deletions::start_more`] finds something.
    pub(crate) fn next_step(&mut self) -> Option<DeletionStep> {
        self.steps.pop_front()
    }

    /// The open directory of a removal that is being listed.
    pub(crate) fn listed_directory(&self, key: Key) -> Option<&Handle> {
        self.removals.get(key)?.handle.as_ref()
    }

    /// Takes a step that has an answer.
    fn ask(&mut self, key: Key, step: DeletionStep) {
        if let Some(removal) = self.removals.get_mut(key) {
            removal.open += 1;
            self.in_flight += 1;
            self.steps.push_back(step);
        }
    }

    /// Deletes the thing itself, if one more may be deleted.
    fn delete(&mut self, key: Key, is_dir: bool) {
        if self.begun >= self.most {
            if !std::mem::replace(&mut self.over, true) {
                self.steps.push_back(DeletionStep::MostReached(self.most));
            }
            return self.failed(key);
        }
        self.begun += 1;
        let Some(removal) = self.removals.get_mut(key) else { return };
        let path = removal.path.clone();
        if self.dry_run {
            self.steps.push_back(DeletionStep::Deleted(path));
            return self.removed(key);
        }
        self.ask(
            key,
            match is_dir {
                true => DeletionStep::RemoveDir(key, path),
                false if self.backups.is_some() => DeletionStep::BackUp(key, path),
                false => DeletionStep::Remove(key, path),
            },
        );
    }

    /// The answer to a step. `select` says what is left out of the copy on purpose.
    pub(crate) fn on_answer(&mut self, key: Key, step: RemovalStep, outcome: Outcome, select: &Selection) {
        let Some(removal) = self.removals.get_mut(key) else { return };
        removal.open -= 1;
        self.in_flight -= 1;
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
            (RemovalStep::ListMore, Ok(Done::Listed(_))) => return self.listed(key, select),
            (RemovalStep::ListMore, Err(fault)) if fault.kind == FaultKind::Eof => {
                return self.listed(key, select);
            }
            (RemovalStep::List | RemovalStep::ListMore, outcome) => {
                removal.contents = match fault_of(outcome) {
                    fault if fault.kind == FaultKind::NotFound => Contents::Missing,
                    fault => Contents::Unlistable(fault),
                };
                self.steps.extend(removal.handle.take().map(DeletionStep::Close));
                return self.end_if_stopped(key);
            }
            (RemovalStep::Delete, Ok(_)) => {
                self.steps.push_back(DeletionStep::Deleted(removal.path.clone()));
                return self.removed(key);
            }
            (RemovalStep::Delete, Err(fault)) if fault.kind == FaultKind::NotFound => {
                return self.removed(key);
            }
            (RemovalStep::Delete, outcome) => {
                self.report(key, FailedStep::DeleteTarget, fault_of(outcome));
                return self.failed(key);
            }
            (RemovalStep::Restore, outcome) => {
                if let Err(fault) = outcome {
                    self.report(key, FailedStep::FinishDir, fault);
                }
                self.removals.remove(key);
                return;
            }
        };
        removal.entries.append(&mut listed);
        match removal.handle.clone() {
            Some(handle) => self.ask(key, DeletionStep::ListMore(key, handle)),
            None => self.listed(key, select),
        }
    }

    /// Reports what failed, unless the connection is lost: that is reported once.
    fn report(&mut self, key: Key, step: FailedStep, fault: Fault) {
        if let Some(removal) = self.removals.get(key)
            && fault.kind != FaultKind::Lost
        {
            self.steps.push_back(DeletionStep::Failed(step, removal.path.clone(), fault));
        }
    }

    /// All that is in a directory is known.
    fn listed(&mut self, key: Key, select: &Selection) {
        let Some(removal) = self.removals.get_mut(key) else { return };
        self.steps.extend(removal.handle.take().map(DeletionStep::Close));
        let mut entries = std::mem::take(&mut removal.entries);
        entries.retain(|entry| !matches!(&*entry.name, b"." | b".."));
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let all = entries.len();
        entries.retain(|entry| is_deletable(select, &removal.relative, entry));
        removal.keeps |= entries.len() < all;
        removal.contents = Contents::Listed(entries);
        self.end_if_stopped(key);
    }

    fn end_if_stopped(&mut self, key: Key) {
        if self.stage == Stage::Done {
            self.end_if_unasked(key);
        }
    }

    /// Deletes a directory that is empty by now, or ends one that stays.
    fn advance(&mut self, key: Key) {
        let Some(removal) = self.removals.get_mut(key) else { return };
        if removal.open > 0 || !matches!(removal.contents, Contents::Queued) {
            return;
        }
        if removal.parent.is_some() {
            if !removal.keeps {
                return self.delete(key, true);
            }
            if !self.over {
                self.steps.push_back(DeletionStep::NotEmpty(removal.path.clone()));
            }
            return self.failed(key);
        }
        // A deletion has set its time.
        match removal.times.filter(|_| removal.touched && !self.dry_run) {
            Some(times) => {
                let path = removal.path.clone();
                self.ask(key, DeletionStep::Restore(key, path, times));
            }
            None => drop(self.removals.remove(key)),
        }
    }

    /// It is gone, or would be.
    fn removed(&mut self, key: Key) {
        let Some(removal) = self.removals.remove(key) else { return };
        match removal.parent {
            Some(Parent::Removal(above)) => {
                if let Some(above) = self.removals.get_mut(above) {
                    above.open -= 1;
                    above.touched = true;
                }
                self.advance(above);
            }
            Some(Parent::Item(mut item)) => {
                item.sync.there = TargetEntry::Nothing;
                item.sync.compared = true;
                self.steps.push_back(DeletionStep::Copy(*item));
            }
            None => {}
        }
    }

    /// It stays.
    fn failed(&mut self, key: Key) {
        let Some(removal) = self.removals.remove(key) else { return };
        self.steps.extend(removal.handle.map(DeletionStep::Close));
        if let Some(parent) = removal.parent {
            self.keep(parent);
        }
    }

    /// Something stays that `parent` waits for.
    fn keep(&mut self, parent: Parent) {
        match parent {
            Parent::Removal(above) => {
                if let Some(above) = self.removals.get_mut(above) {
                    above.open -= 1;
                    above.keeps = true;
                }
                self.advance(above);
            }
            Parent::Item(item) => self.steps.push_back(DeletionStep::DoNotCopy(*item)),
        }
    }
}

#[cfg(test)]
mod tests;
