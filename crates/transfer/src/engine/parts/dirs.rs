//! Directories: what is presumed of one that is to be made, what is found in its place, and comparing what
//! both ends have in it.

use crate::end::{Done, FaultKind, Kind, Outcome};
use crate::engine::parts::Parts;
use crate::item::{Item, TargetEntry};
use crate::names::{display_name, join};
use crate::sync::extraneous::Extraneous;
use crate::sync::listings::{Compared, EntryVerdict};
use crate::sync::terms::Terms;
use crate::table::Key;
use crate::tree::listing::ListingContext;
use crate::tree::walk::Tree;
use crate::wording::FailedStep;
use crate::{Direction, wording};

impl Parts {
    /// Returns true when the directory that is to be made for `item` was not there, so that what goes into it
    /// need not wait.
    pub(in crate::engine) fn presumes(&self, item: &Item) -> bool {
        self.plan.direction == Direction::Upload
            && !self.options.dry_run
            && !self.options.follows_no_links(item)
            && self.ends.target_keeps_order()
            && match item.parent {
                None => self.prepare.first_flight.is_absent(&item.target),
                Some(key) => self.tree.dirs.get(key).is_some_and(|dir| dir.created() || dir.presumed()),
            }
    }

    /// Both ends have listed the directory: what differs waits to be copied, in the order of names.
    pub(in crate::engine) fn compare_if_listed(&mut self, key: Key) {
        let Some(listings) = self.tree.take_listings(key) else { return };
        let Some(dir) = self.tree.dirs.get(key) else { return };
        let may_fold = !self.options.dry_run && self.ends.may_fold_names();
        let (source, directory) = (dir.item.source.clone(), dir.item.target.clone());
        let (place, mut skipped) = (dir.position.place.clone(), Vec::new());
        if self.options.deletes() {
            let found = listings.not_at_source(&self.options.select, dir.relative(), may_fold);
            for twin in found.twins {
                let path = display_name(&join(&directory, &twin.name));
                let why = "the source has a name that differs by case only";
                skipped.push(format!("\"{path}\" is not deleted: {why}"));
            }
            if !found.to_delete.is_empty() {
                let times = dir.item.info.times.filter(|_| self.options.preserve);
                let (relative, entries) = (dir.relative.clone(), found.to_delete);
                let directory = directory.clone();
                self.sync.deletions.add(Extraneous { directory, relative, times, entries });
            }
        }
        let terms = Terms::new(&self.options, &self.ends);
        let leaves_links = !self.options.follow_links && !self.options.keep.links;
        for compared in listings.compare(&terms, leaves_links) {
            let Some(Compared { entry, verdict, .. }) = self.tree.queue_compared(key, compared, may_fold)
            else {
                continue;
            };
            let path = || join(&source, &entry.name);
            if verdict == EntryVerdict::Skip {
                skipped.push(wording::skipped(self.plan.direction, &path()));
                continue;
            }
            self.report.summary.unchanged += 1;
            if self.options.reporting.sums.is_some() {
                let target = join(&directory, &entry.name);
                self.report.unchanged(&self.plan.target, path(), target, &entry.info, None);
            }
        }
        self.report.skip_in_order(place, skipped);
    }

    pub(in crate::engine) const fn lister(&mut self) -> (&mut Tree, ListingContext<'_>) {
        let Self { plan, options, ends, report, tree, .. } = self;
        (tree, ListingContext { direction: plan.direction, options, ends, report })
    }

    /// Making the directory failed; `outcome` says what is there instead.
    pub(in crate::engine) fn checked(&mut self, key: Key, outcome: Outcome) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let making = dir.making.fault.take();
        let doubts = dir.making.doubts.take().unwrap_or_default();
        let fault = match outcome {
            Ok(Done::Info(info)) if matches!(info.kind, Kind::Dir | Kind::Unknown) => {
                dir.making.ready = true;
                if dir.at_target.comparing.is_some() {
                    dir.item.sync.there = TargetEntry::Found(info);
                    self.tree.list_target(key, &mut self.ends);
                }
                // Another process has made it.
                return doubts.into_iter().for_each(|text| self.report.fail(text));
            }
            Ok(_) => None,
            Err(fault) => Some(making.unwrap_or(fault)),
        };
        dir.making.reported = true;
        let (target, parent) = (dir.item.target.clone(), dir.item.parent);
        let (relative, source) = (dir.relative.clone(), dir.item.source.clone());
        self.tree.abandon_dir(key);
        self.tree.list_more(key, &mut self.ends);
        let text = match fault {
            None => format!("\"{}\" exists but is not a directory", display_name(&target)),
            Some(fault) if fault.kind == FaultKind::Lost => return,
            Some(fault) => wording::failed(self.plan.direction, FailedStep::MakeDir, &target, &fault),
        };
        if !self.tree.reported_by_dir(parent, &text) {
            self.report.fail(text);
        }
        self.report.blame(&source);
        self.report.missed(Some(relative));
    }
}
