//! Items that a listing does not decide: named on the command line, symbolic links, other kinds of things than the target has.

use crate::end::{Change, Done, Fault, FaultKind, Kind, Op, Outcome, fault_of, path_of};
use crate::engine::Engine;
use crate::item::{Item, There};
use crate::names::{base_name, display_name, join};
use crate::sync::Compare;
use crate::sync::backup::Replaced;
use crate::sync::same::{has_exact_time, is_newer, is_unchanged};
use crate::sync::terms::Terms;
use crate::table::Key;
use crate::target_facts::NotKept;
use crate::task::File;
use crate::task::state::State;
use crate::token::{FileStep, Side, SyncStep, Token};
use crate::tree::Dir;
use crate::wording::Deed;
use crate::{Event, wording};

impl Engine {
    /// Finds out what differs, then copies or leaves it.
    pub(in crate::engine) fn compare_item(&mut self, item: Item) {
        let in_tree = item.parent.is_some();
        let as_link = item.info.kind == Kind::Symlink && self.options.keep.links && in_tree;
        let undecided = match item.info.kind {
            Kind::Unknown => true,
            Kind::Symlink => !as_link,
            Kind::File => item.info.size.is_none() || item.info.times.is_none(),
            Kind::Dir | Kind::Special => false,
        };
        let unseen = item.there == There::Unknown;
        let (source, target) = (item.source.clone(), item.target.clone());
        let key = self.sync.compares.insert(Compare::new(item));
        if undecided {
            self.ask_compare(key, Side::Source, Op::Stat(&source), SyncStep::Source);
        }
        if unseen {
            // The target itself is where it was told to be; below it no link is followed.
            let named = target == self.plan.target;
            let op = if named { Op::Stat(&target) } else { Op::Lstat(&target) };
            self.ask_compare(key, Side::Target, op, SyncStep::Target);
        }
        if !undecided && !unseen {
            self.decide(key);
        }
    }

    fn ask_compare(&mut self, key: Key, side: Side, op: Op<'_>, step: SyncStep) {
        if let Some(compare) = self.sync.compares.get_mut(key) {
            compare.asked += 1;
            self.ends.start(side, op, Token::Sync(key, step));
        }
    }

    pub(in crate::engine) fn sync_answer(&mut self, key: Key, step: SyncStep, outcome: Outcome) {
        let direction = self.plan.direction;
        let Some(compare) = self.sync.compares.get_mut(key) else { return };
        compare.asked -= 1;
        if matches!(&outcome, Err(fault) if fault.kind == FaultKind::Lost) {
            compare.failed = true;
        }
        let failed = compare.failed;
        match (step, outcome) {
            _ if failed => {}
            (SyncStep::Source, Ok(Done::Info(info))) => compare.item.info = info,
            (SyncStep::Source, outcome) => {
                compare.failed = true;
                let fault = fault_of(outcome);
                let text = wording::failed(direction, Deed::StatSource, &compare.item.source, &fault);
                self.report.fail(text);
            }
            (SyncStep::Target, Ok(Done::Info(info))) => compare.item.there = There::Found(info),
            // What cannot be seen may still be written to: that shows it.
            (SyncStep::Target, _) => compare.item.there = There::Nothing,
            (SyncStep::SourceLink, outcome) => compare.links[0] = path_of(outcome).ok(),
            (SyncStep::TargetLink, outcome) => compare.links[1] = path_of(outcome).ok(),
            (SyncStep::Cleared, Ok(_)) => compare.item.there = There::Nothing,
            (SyncStep::Cleared, outcome) => {
                compare.failed = true;
                let text = not_cleared(&compare.item, &fault_of(outcome));
                self.report.fail(text);
            }
            (SyncStep::SourceXattrs, Ok(Done::Xattrs(xattrs))) => compare.xattrs[0] = Some(xattrs),
            (SyncStep::TargetXattrs, Ok(Done::Xattrs(xattrs))) => compare.xattrs[1] = Some(xattrs),
            (SyncStep::Xattrs, Ok(_)) => {}
            (SyncStep::SourceXattrs | SyncStep::TargetXattrs | SyncStep::Xattrs, outcome) => {
                let target = compare.item.target.clone();
                self.ends.facts.report_not_kept_at(
                    NotKept::Xattrs,
                    &target,
                    &fault_of(outcome),
                    &mut self.report,
                );
            }
            (SyncStep::Owner, Err(fault)) => {
                let target = compare.item.target.clone();
                self.ends.facts.report_not_kept_at(NotKept::Owner, &target, &fault, &mut self.report);
            }
            (SyncStep::Attributes, Err(fault)) => {
                let text = wording::failed(direction, Deed::FinishTarget, &compare.item.target, &fault);
                self.report.fail(text);
            }
            (SyncStep::Owner | SyncStep::Attributes, Ok(_)) => {}
        }
        if self.sync.compares.get(key).is_none_or(|compare| compare.asked > 0) {
            return;
        }
        match step {
            SyncStep::Owner | SyncStep::Xattrs | SyncStep::Attributes => self.leave_out(key),
            SyncStep::SourceXattrs | SyncStep::TargetXattrs => self.mend(key),
            SyncStep::SourceLink | SyncStep::TargetLink => self.links_compared(key),
            SyncStep::Source | SyncStep::Target | SyncStep::Cleared => self.decide(key),
        }
    }

    /// Everything is known that there is to ask.
    fn decide(&mut self, key: Key) {
        let full = self.ends.times_are_full();
        let ended = self.report.is_over();
        let Some(Compare { item, failed, .. }) = self.sync.compares.get(key) else { return };
        if *failed || ended {
            return self.leave_out(key);
        }
        let There::Found(there) = item.there else { return self.copy_compared(key) };
        match (item.info.kind, there.kind) {
            (Kind::Special, _) | (Kind::Dir, Kind::Dir) => self.copy_compared(key),
            (Kind::Dir, _) => self.clear_way(key),
            (_, Kind::Dir) => self.clear_directory(key),
            // Within a second a link may have been made anew, and as long as it was.
            (Kind::Symlink, Kind::Symlink)
                // Reports of copies have the target of the link.
                if full
                    && has_exact_time(&item.info)
                    && is_unchanged(&item.info, &there, full)
                    && self.options.sums.is_none() =>
            {
                self.unchanged(key);
            }
            (Kind::Symlink, Kind::Symlink) => {
                let (source, target) = (item.source.clone(), item.target.clone());
                self.ask_compare(key, Side::Source, Op::ReadLink(&source), SyncStep::SourceLink);
                self.ask_compare(key, Side::Target, Op::ReadLink(&target), SyncStep::TargetLink);
            }
            (Kind::Symlink, _) | (_, Kind::Symlink) if self.sync.backups.are_wanted() => self.clear_way(key),
            // A link is made beside what is there, and moved over it.
            (Kind::Symlink, _) => self.copy_compared(key),
            (_, Kind::Symlink) if self.options.atomic => self.copy_compared(key),
            (_, Kind::Symlink | Kind::Special) => self.clear_way(key),
            (_, Kind::File) if self.options.keeps_newer() && is_newer(&there, &item.info) => {
                let text = format!("\"{}\" is newer than its source", display_name(&item.target));
                self.report.event(Event::Notice { text });
                self.report.summary.unchanged += 1;
                self.leave_out(key);
            }
            (_, Kind::File) if self.options.compares_contents() && item.info.size != Some(0) => {
                if item.info.size.is_some() && item.info.size == there.size {
                    self.compare_contents(key);
                } else {
                    self.copy_compared(key);
                }
            }
            (_, Kind::File) if is_unchanged(&item.info, &there, full) => {
                if !self.joins_unchanged(key) {
                    self.unchanged(key);
                }
            }
            (_, Kind::File | Kind::Unknown) => self.copy_compared(key),
        }
    }

    fn links_compared(&mut self, key: Key) {
        let Some(Compare { links: [ours, theirs], failed, .. }) = self.sync.compares.get(key) else { return };
        match (ours, theirs) {
            _ if *failed => self.leave_out(key),
            (Some(ours), Some(theirs)) if ours == theirs => self.unchanged(key),
            _ if self.sync.backups.are_wanted() => self.clear_way(key),
            _ => self.copy_compared(key),
        }
    }

    /// It is not copied, or its copying has failed.
    fn leave_out(&mut self, key: Key) {
        if let Some(Compare { item, .. }) = self.sync.compares.remove(key) {
            self.child_finished(item.parent);
        }
    }

    /// The connection is lost: of what is being compared nothing more will be known.
    pub(in crate::engine) fn leave_comparisons(&mut self) {
        for key in self.sync.compares.keys() {
            self.leave_out(key);
        }
    }

    pub(super) fn copy_compared(&mut self, key: Key) {
        let Some(Compare { mut item, .. }) = self.sync.compares.remove(key) else { return };
        item.compared = true;
        if let There::Found(there) = item.there {
            // Written in place it would change under its other names, too.
            item.alone |= there.links.is_some_and(|links| links > 1);
            if self.sync.backups.are_wanted() && there.kind != Kind::Dir {
                item.alone = true;
                item.backed_up = Some(false);
            }
            // Only its own attributes are looked at.
            let stays = item.info.kind == Kind::Dir && there.kind == Kind::Dir;
            if stays {
                return self.copy_item(item);
            }
        }
        self.tree.touch_dir(item.parent);
        self.copy_item(item);
    }

    /// The contents are the same. Its names may still be names of several files.
    pub(super) fn same_contents(&mut self, key: Key) {
        if !self.joins_unchanged(key) {
            self.unchanged(key);
        }
    }

    /// What is there is the copy: only its attributes may differ.
    fn unchanged(&mut self, key: Key) {
        let Some(Compare { item, links, .. }) = self.sync.compares.get(key) else { return };
        let There::Found(_) = item.there else { return self.copy_compared(key) };
        let (info, target) = (item.info, item.target.clone());
        self.report.summary.unchanged += 1;
        let source = item.source.clone();
        let link = links[0].clone();
        self.report.unchanged(&self.plan.target, source.clone(), target.clone(), &info, link);
        if self.options.dry_run || info.kind == Kind::Symlink {
            return self.leave_out(key);
        }
        if Terms::new(&self.options, &self.ends).xattrs {
            let wanted = self.options.keep.xattr_kinds();
            self.ask_compare(key, Side::Source, Op::Xattrs { path: &source, wanted }, SyncStep::SourceXattrs);
            let op = Op::Xattrs { path: &target, wanted };
            return self.ask_compare(key, Side::Target, op, SyncStep::TargetXattrs);
        }
        self.mend(key);
    }

    /// Gives an unchanged file the attributes that it should have and has not.
    fn mend(&mut self, key: Key) {
        let Some(compare) = self.sync.compares.get_mut(key) else { return };
        let (There::Found(there), false) = (compare.item.there, compare.failed) else {
            return self.leave_out(key);
        };
        let (info, target) = (compare.item.info, compare.item.target.clone());
        let xattrs = match std::mem::take(&mut compare.xattrs) {
            [Some(mut ours), Some(mut theirs)] => {
                ours.sort_unstable();
                theirs.sort_unstable();
                (ours != theirs).then_some(ours)
            }
            _ => None,
        };
        let (owner, change) = Terms::new(&self.options, &self.ends).attributes_to_mend(&info, &there);
        if owner.is_none() && xattrs.is_none() && change == Change::default() {
            return self.leave_out(key);
        }
        if owner.is_some() {
            let change = Change { ids: owner, ..Change::default() };
            self.ask_compare(key, Side::Target, Op::SetPath { path: &target, change }, SyncStep::Owner);
        }
        if let Some(xattrs) = xattrs {
            let wanted = self.options.keep.xattr_kinds();
            let op = Op::SetXattrs { path: &target, wanted, xattrs: &xattrs };
            self.ask_compare(key, Side::Target, op, SyncStep::Xattrs);
        }
        if change != Change::default() {
            let op = Op::SetPath { path: &target, change };
            self.ask_compare(key, Side::Target, op, SyncStep::Attributes);
        }
    }

    /// Removes what is no directory.
    fn clear_way(&mut self, key: Key) {
        let Some(Compare { item, .. }) = self.sync.compares.get(key) else { return };
        let (target, parent) = (item.target.clone(), item.parent);
        if self.options.dry_run {
            return self.copy_compared(key);
        }
        self.tree.touch_dir(parent);
        if self.sync.backups.are_wanted() {
            if let Some(compare) = self.sync.compares.get_mut(key) {
                compare.asked += 1;
            }
            return self.sync.backups.back_up(
                &mut self.ends,
                &self.plan.target,
                target,
                Replaced::Compared(key),
            );
        }
        self.ask_compare(key, Side::Target, Op::Remove(&target), SyncStep::Cleared);
    }

    /// Something else is to take the place of a directory: where nothing is deleted only of an empty one.
    fn clear_directory(&mut self, key: Key) {
        let Some(Compare { item, .. }) = self.sync.compares.get(key) else { return };
        let (target, parent) = (item.target.clone(), item.parent);
        if self.options.deletes() {
            let item = item.clone();
            self.sync.compares.remove(key);
            let above = item.parent.and_then(|key| self.tree.dirs.get(key)).map_or(&b""[..], Dir::relative);
            let relative = match item.parent {
                None => Vec::new(),
                Some(_) => join(above, base_name(&item.source)),
            };
            return self.sync.deletions.delete_before(item, relative);
        }
        if self.options.dry_run {
            let text = not_cleared(item, &Fault::other("Is a directory"));
            self.report.fail(text);
            return self.leave_out(key);
        }
        self.tree.touch_dir(parent);
        self.ask_compare(key, Side::Target, Op::RemoveDir(&target), SyncStep::Cleared);
    }

    /// The file is unchanged and has several names. True when it is to be made another name of a copy that has been met.
    fn joins_unchanged(&mut self, key: Key) -> bool {
        let Some(Compare { item, .. }) = self.sync.compares.get(key) else { return false };
        let There::Found(there) = item.there else { return false };
        let several = self.options.keep.hard_links && item.info.links.is_some_and(|links| links > 1);
        let Some(identity) = item.info.identity.filter(|_| several && !self.options.dry_run) else {
            return false;
        };
        let item = item.clone();
        if !self.joins_names(identity, &item, there.identity) {
            return false;
        }
        self.tree.touch_dir(item.parent);
        self.sync.compares.remove(key);
        true
    }

    pub(in crate::engine) fn begin_item(&mut self, item: Item) {
        self.announce(&item);
        if self.options.tree_sync.is_some() && !item.compared {
            return self.compare_item(item);
        }
        self.copy_item(item);
    }

    /// Says what the user named when it is begun.
    pub(in crate::engine) fn announce(&mut self, item: &Item) {
        if self.options.announce && item.parent.is_none() && !item.again && !item.in_place && !item.fresh {
            let (source, target) = (item.source.clone(), item.target.clone());
            self.report.event(crate::Event::Started { source, target });
        }
    }

    /// Compares both files whole, then copies or leaves the item.
    pub(in crate::engine) fn compare_contents(&mut self, key: Key) {
        let Some(Compare { item, .. }) = self.sync.compares.remove(key) else { return };
        let (source, target) = (item.source.clone(), item.target.clone());
        let id = self.progress.new_file_id();
        // Not a file to copy; if it is one after all, it gets another id.
        self.progress.not_files += 1;
        let size = item.info.size.unwrap_or(0);
        let mut file = File::new(id, item, self.progress.now);
        (file.state, file.requests.size, file.outstanding) = (State::Comparing(None), size, 2);
        let key = self.tasks.files.insert(file);
        for (side, path) in [(Side::Source, source), (Side::Target, target)] {
            self.ends.start(side, Op::OpenRead(&path), Token::File(key, FileStep::Contents(side)));
        }
    }

    /// The contents of both files were found to be the same, or not: leaves the item, or copies it.
    pub(in crate::engine) fn contents_compared(&mut self, key: Key, same: bool) {
        let Some(file) = self.tasks.files.remove(key) else { return };
        for (side, handle) in [(Side::Source, file.handles.source), (Side::Target, file.handles.target)] {
            if let Some(handle) = handle {
                self.ends.start(side, Op::Close(handle), Token::Nothing);
            }
        }
        let key = self.sync.compares.insert(Compare::new(file.item));
        if same { self.same_contents(key) } else { self.copy_compared(key) }
    }
}

pub(super) fn not_cleared(item: &Item, fault: &Fault) -> String {
    format!(
        "\"{}\" is in the way of a copy and cannot be removed: {}",
        display_name(&item.target),
        fault.text
    )
}
