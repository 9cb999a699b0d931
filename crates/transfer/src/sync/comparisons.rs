//! Deciding what differs of items that a listing does not decide: named on the command line, symbolic links,
//! other kinds of things than the target has.
//!
//! Answers in, steps out: the caller fetches each step ([`Comparisons::next_step`]), carries it out, and
//! gives the answer to a question back ([`Comparisons::on_answer`]). What is known is compared first; what is
//! not is asked for. An item ends with [`CompareStep::Copy`], [`CompareStep::Finished`], or one of the steps
//! that hand it on.

use std::collections::VecDeque;

use lh_sftp::extended_attrs::Xattrs;

use crate::end::{Change, Done, Fault, FaultKind, Info, Kind, Op, Outcome, fault_of, path_of};
use crate::item::{BackupState, Item, TargetEntry};
use crate::sync::terms::Terms;
use crate::sync::verdict::{CompareRules, Verdict};
use crate::table::{Key, Table};
use crate::target_facts::NotKept;
use crate::token::SyncStep;
use crate::wording::FailedStep;

/// Items that are compared at a time: each asks its questions at once, and keeps its names in memory.
const MOST_COMPARED: usize = 1024;

/// Query to an end, about a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Stat,
    Lstat,
    ReadLink,
    Xattrs,
    Remove,
    RemoveDir,
    Set(Change),
    SetXattrs(Xattrs),
}

impl Request {
    /// The operation; `wanted` says which extended attributes.
    pub(crate) const fn op<'a>(&'a self, path: &'a [u8], wanted: u32) -> Op<'a> {
        match self {
            Self::Stat => Op::Stat(path),
            Self::Lstat => Op::Lstat(path),
            Self::ReadLink => Op::ReadLink(path),
            Self::Xattrs => Op::Xattrs { path, wanted },
            Self::Remove => Op::Remove(path),
            Self::RemoveDir => Op::RemoveDir(path),
            Self::Set(change) => Op::SetPath { path, change: *change },
            Self::SetXattrs(xattrs) => Op::SetXattrs { path, wanted, xattrs },
        }
    }
}

/// Next action of the caller.
#[derive(Debug)]
pub(crate) enum CompareStep {
    /// Asks the end that `step` is about; the answer is for [`Comparisons::on_answer`].
    Ask { key: Key, step: SyncStep, path: Vec<u8>, request: Request },
    /// Moves the existing file to the backups; the answer is for [`SyncStep::Cleared`].
    BackUp(Key, Vec<u8>),
    /// Something in the directory is made or removed.
    Touch(Option<Key>),
    /// Copies this.
    Copy(Box<Item>),
    /// The item is done, or its copy has failed.
    Finished(Box<Item>),
    /// Reports that what is there is the copy. `link`: where it leads, if it is a symbolic link that was
    /// read.
    Unchanged { source: Vec<u8>, target: Vec<u8>, info: Info, link: Option<Vec<u8>> },
    /// Reports that the target's file is newer.
    Newer(Vec<u8>),
    /// Reads both files; what comes of it is for [`Comparisons::contents_compared`].
    CompareContents(Box<Item>),
    /// Makes an unchanged file another name of an earlier one's copy, where it is to be one: for
    /// [`Comparisons::linked`]. `there` is what the target has under its name.
    Link { key: Key, item: Box<Item>, identity: (u64, u64), there: Option<(u64, u64)> },
    /// Copies this when the directory in its way is deleted with all that is in it.
    DeleteFirst(Box<Item>),
    /// Reports that what is in the way cannot be removed.
    InTheWay(Vec<u8>, Fault),
    /// Reports that something failed.
    Failed(FailedStep, Vec<u8>, Fault),
    /// Reports what the target does not keep.
    NotKept(NotKept, Vec<u8>, Fault),
}

/// An item that is being compared.
#[derive(Debug)]
struct Compare {
    item: Item,
    /// Answers awaited.
    asked: u8,
    /// It has failed, and the failure was reported.
    failed: bool,
    /// Targets of the links at both ends.
    links: [Option<Vec<u8>>; 2],
    /// The extended attributes at both ends.
    xattrs: [Option<Xattrs>; 2],
}

/// The items that are being compared. `terms` in each call are those that hold now.
#[derive(Debug)]
pub(crate) struct Comparisons {
    rules: CompareRules,
    items: Table<Compare>,
    /// Nothing is copied any more.
    stopped: bool,
    steps: VecDeque<CompareStep>,
}

impl Comparisons {
    pub(crate) const fn new(rules: CompareRules) -> Self {
        Self { rules, items: Table::new(), stopped: false, steps: VecDeque::new() }
    }

    /// Returns true when nothing is being compared.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.len() == 0
    }

    /// Returns true when another item may be compared now.
    pub(crate) fn has_room(&self) -> bool {
        self.items.len() < MOST_COMPARED
    }

    /// The next step to carry out; `None` until an answer comes.
    pub(crate) fn next_step(&mut self) -> Option<CompareStep> {
        self.steps.pop_front()
    }

    /// Nothing is copied any more: what is being compared is left out when its answers have come.
    pub(crate) const fn stop(&mut self) {
        self.stopped = true;
    }

    /// The connection is lost: of what is being compared nothing more will be known.
    pub(crate) fn abandon(&mut self) {
        self.stop();
        for key in self.items.keys() {
            self.leave_out(key);
        }
    }

    /// Begins to compare an item; `top` is the target of the copy.
    pub(crate) fn begin(&mut self, item: Item, top: &[u8], terms: &Terms) {
        let as_link = item.info.kind == Kind::Symlink && self.rules.keeps_links && item.parent.is_some();
        let undecided = match item.info.kind {
            Kind::Unknown => true,
            Kind::Symlink => !as_link,
            Kind::File => item.info.size.is_none() || item.info.times.is_none(),
            Kind::Dir | Kind::Special => false,
        };
        let unseen = item.sync.there == TargetEntry::Unknown;
        // The target itself is where it was told to be; below it no link is followed.
        let look = if item.target == top { Request::Stat } else { Request::Lstat };
        let key = self.insert(item);
        if undecided {
            self.ask(key, SyncStep::Source, Request::Stat);
        }
        if unseen {
            self.ask(key, SyncStep::Target, look);
        }
        if !undecided && !unseen {
            self.decide(key, terms);
        }
    }

    /// The contents of both files were found to be the same, or not.
    pub(crate) fn contents_compared(&mut self, item: Item, same: bool, terms: &Terms) {
        let key = self.insert(item);
        if same { self.same_file(key, terms) } else { self.copy(key) }
    }

    /// The file has become another name of an earlier one's copy, or stays one of its own.
    pub(crate) fn linked(&mut self, key: Key, joined: bool, terms: &Terms) {
        if !joined {
            return self.unchanged(key, terms);
        }
        if let Some(Compare { item, .. }) = self.items.remove(key) {
            self.steps.push_back(CompareStep::Touch(item.parent));
        }
    }

    fn insert(&mut self, item: Item) -> Key {
        let (links, xattrs) = ([None, None], [None, None]);
        self.items.insert(Compare { item, asked: 0, failed: false, links, xattrs })
    }

    fn ask(&mut self, key: Key, step: SyncStep, request: Request) {
        let Some(compare) = self.items.get_mut(key) else { return };
        compare.asked += 1;
        let path = compare.item.path_at(step.side()).to_vec();
        self.steps.push_back(CompareStep::Ask { key, step, path, request });
    }

    /// The answer to a question.
    pub(crate) fn on_answer(&mut self, key: Key, step: SyncStep, outcome: Outcome, terms: &Terms) {
        let Some(compare) = self.items.get_mut(key) else { return };
        compare.asked -= 1;
        if matches!(&outcome, Err(fault) if fault.kind == FaultKind::Lost) {
            compare.failed = true;
        }
        if !compare.failed {
            self.steps.extend(compare.take(step, outcome));
        }
        if compare.asked > 0 {
            return;
        }
        match step {
            SyncStep::Owner | SyncStep::Xattrs | SyncStep::Attributes => self.leave_out(key),
            SyncStep::SourceXattrs | SyncStep::TargetXattrs => self.mend(key, terms),
            SyncStep::SourceLink | SyncStep::TargetLink => self.links_compared(key, terms),
            SyncStep::Source | SyncStep::Target | SyncStep::Cleared => self.decide(key, terms),
        }
    }

    /// Everything is known that there is to ask.
    fn decide(&mut self, key: Key, terms: &Terms) {
        let Some(Compare { item, failed, .. }) = self.items.get(key) else { return };
        if *failed || self.stopped {
            return self.leave_out(key);
        }
        let TargetEntry::Found(there) = item.sync.there else { return self.copy(key) };
        match self.rules.verdict(&item.info, &there, terms.times_are_full) {
            Verdict::Copy => self.copy(key),
            Verdict::ClearWay => self.clear_way(key),
            Verdict::ClearDirectory => self.clear_directory(key),
            Verdict::Unchanged => self.unchanged(key, terms),
            Verdict::SameFile => self.same_file(key, terms),
            Verdict::KeepNewer => {
                self.steps.push_back(CompareStep::Newer(item.target.clone()));
                self.leave_out(key);
            }
            Verdict::CompareLinks => {
                self.ask(key, SyncStep::SourceLink, Request::ReadLink);
                self.ask(key, SyncStep::TargetLink, Request::ReadLink);
            }
            Verdict::CompareContents => {
                if let Some(Compare { item, .. }) = self.items.remove(key) {
                    self.steps.push_back(CompareStep::CompareContents(Box::new(item)));
                }
            }
        }
    }

    fn links_compared(&mut self, key: Key, terms: &Terms) {
        let Some(Compare { links: [ours, theirs], failed, .. }) = self.items.get(key) else { return };
        match (ours, theirs) {
            _ if *failed => self.leave_out(key),
            (Some(ours), Some(theirs)) if ours == theirs => self.unchanged(key, terms),
            _ if self.rules.backs_up => self.clear_way(key),
            _ => self.copy(key),
        }
    }

    /// It is not copied, or its copying has failed.
    fn leave_out(&mut self, key: Key) {
        if let Some(Compare { item, .. }) = self.items.remove(key) {
            self.steps.push_back(CompareStep::Finished(Box::new(item)));
        }
    }

    fn copy(&mut self, key: Key) {
        let Some(Compare { mut item, .. }) = self.items.remove(key) else { return };
        item.sync.compared = true;
        let mut stays = false;
        if let TargetEntry::Found(there) = item.sync.there {
            // Written in place it would change under its other names, too.
            item.alone |= there.links.is_some_and(|links| links > 1);
            if self.rules.backs_up && there.kind != Kind::Dir {
                item.alone = true;
                item.sync.backup = BackupState::Due;
            }
            // Only its own attributes are looked at.
            stays = item.info.kind == Kind::Dir && there.kind == Kind::Dir;
        }
        if !stays {
            self.steps.push_back(CompareStep::Touch(item.parent));
        }
        self.steps.push_back(CompareStep::Copy(Box::new(item)));
    }

    /// The contents are the same. Its names may still be names of several files.
    fn same_file(&mut self, key: Key, terms: &Terms) {
        let Some(Compare { item, .. }) = self.items.get(key) else { return };
        let several = self.rules.keeps_hard_links && item.info.links.is_some_and(|links| links > 1);
        match (item.sync.there, item.info.identity) {
            (TargetEntry::Found(there), Some(identity)) if several && !self.rules.dry_run => {
                let (item, there) = (Box::new(item.clone()), there.identity);
                self.steps.push_back(CompareStep::Link { key, item, identity, there });
            }
            _ => self.unchanged(key, terms),
        }
    }

    /// The target equals the source; only its attributes may differ.
    fn unchanged(&mut self, key: Key, terms: &Terms) {
        let Some(Compare { item, links: [link, _], .. }) = self.items.get(key) else { return };
        let TargetEntry::Found(_) = item.sync.there else { return self.copy(key) };
        let (info, link) = (item.info, link.clone());
        let (source, target) = (item.source.clone(), item.target.clone());
        self.steps.push_back(CompareStep::Unchanged { source, target, info, link });
        if self.rules.dry_run || info.kind == Kind::Symlink {
            return self.leave_out(key);
        }
        if terms.xattrs {
            self.ask(key, SyncStep::SourceXattrs, Request::Xattrs);
            return self.ask(key, SyncStep::TargetXattrs, Request::Xattrs);
        }
        self.mend(key, terms);
    }

    /// Gives an unchanged file the attributes that it should have and has not.
    fn mend(&mut self, key: Key, terms: &Terms) {
        let Some(compare) = self.items.get_mut(key) else { return };
        let (TargetEntry::Found(there), false) = (compare.item.sync.there, compare.failed) else {
            return self.leave_out(key);
        };
        let xattrs = match std::mem::take(&mut compare.xattrs) {
            [Some(mut ours), Some(mut theirs)] => {
                ours.sort_unstable();
                theirs.sort_unstable();
                (ours != theirs).then_some(ours)
            }
            _ => None,
        };
        let (owner, change) = terms.attributes_to_mend(&compare.item.info, &there);
        if owner.is_none() && xattrs.is_none() && change == Change::default() {
            return self.leave_out(key);
        }
        if owner.is_some() {
            self.ask(key, SyncStep::Owner, Request::Set(Change { ids: owner, ..Change::default() }));
        }
        if let Some(xattrs) = xattrs {
            self.ask(key, SyncStep::Xattrs, Request::SetXattrs(xattrs));
        }
        if change != Change::default() {
            self.ask(key, SyncStep::Attributes, Request::Set(change));
        }
    }

    /// Removes what is no directory.
    fn clear_way(&mut self, key: Key) {
        if self.rules.dry_run {
            return self.copy(key);
        }
        let Some(compare) = self.items.get_mut(key) else { return };
        self.steps.push_back(CompareStep::Touch(compare.item.parent));
        if self.rules.backs_up {
            compare.asked += 1;
            self.steps.push_back(CompareStep::BackUp(key, compare.item.target.clone()));
            return;
        }
        self.ask(key, SyncStep::Cleared, Request::Remove);
    }

    /// Something else is to take the place of a directory: where nothing is deleted only of an empty one.
    fn clear_directory(&mut self, key: Key) {
        if self.rules.deletes {
            if let Some(Compare { item, .. }) = self.items.remove(key) {
                self.steps.push_back(CompareStep::DeleteFirst(Box::new(item)));
            }
            return;
        }
        let Some(Compare { item, .. }) = self.items.get(key) else { return };
        if self.rules.dry_run {
            self.steps.push_back(CompareStep::InTheWay(item.target.clone(), Fault::other("Is a directory")));
            return self.leave_out(key);
        }
        self.steps.push_back(CompareStep::Touch(item.parent));
        self.ask(key, SyncStep::Cleared, Request::RemoveDir);
    }
}

impl Compare {
    /// Takes what an answer says; returns what is to be reported of it.
    fn take(&mut self, step: SyncStep, outcome: Outcome) -> Option<CompareStep> {
        let target = || self.item.target.clone();
        match (step, outcome) {
            (SyncStep::Source, Ok(Done::Info(info))) => self.item.info = info,
            (SyncStep::Source, outcome) => {
                self.failed = true;
                let source = self.item.source.clone();
                return Some(CompareStep::Failed(FailedStep::StatSource, source, fault_of(outcome)));
            }
            (SyncStep::Target, Ok(Done::Info(info))) => self.item.sync.there = TargetEntry::Found(info),
            // A target that cannot be looked at may still be writable: OPEN decides.
            (SyncStep::Target, _) | (SyncStep::Cleared, Ok(_)) => self.item.sync.there = TargetEntry::Nothing,
            (SyncStep::SourceLink, outcome) => self.links[0] = path_of(outcome).ok(),
            (SyncStep::TargetLink, outcome) => self.links[1] = path_of(outcome).ok(),
            (SyncStep::Cleared, outcome) => {
                self.failed = true;
                return Some(CompareStep::InTheWay(self.item.target.clone(), fault_of(outcome)));
            }
            (SyncStep::SourceXattrs, Ok(Done::Xattrs(xattrs))) => self.xattrs[0] = Some(xattrs),
            (SyncStep::TargetXattrs, Ok(Done::Xattrs(xattrs))) => self.xattrs[1] = Some(xattrs),
            (SyncStep::Owner | SyncStep::Xattrs | SyncStep::Attributes, Ok(_)) => {}
            (SyncStep::SourceXattrs | SyncStep::TargetXattrs | SyncStep::Xattrs, outcome) => {
                return Some(CompareStep::NotKept(NotKept::Xattrs, target(), fault_of(outcome)));
            }
            (SyncStep::Owner, Err(fault)) => {
                return Some(CompareStep::NotKept(NotKept::Owner, target(), fault));
            }
            (SyncStep::Attributes, Err(fault)) => {
                return Some(CompareStep::Failed(FailedStep::FinishTarget, target(), fault));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
