//! Directories: made before their files, listed while others are copied, finished after their last file.

mod finish;

use crate::end::{Done, FaultKind, Kind, Op, Outcome};
use crate::engine::Engine;
use crate::item::{Item, TargetEntry};
use crate::names::{display_name, join};
use crate::sync::extraneous::Extraneous;
use crate::sync::listings::{Compared, EntryVerdict};
use crate::sync::terms::Terms;
use crate::table::Key;
use crate::token::{DirStep, Side, Token};
use crate::tree::Dir;
use crate::tree::listing::ListingContext;
use crate::tree::walk::Tree;
use crate::wording::FailedStep;
use crate::{Direction, wording};

impl Engine {
    /// Begins with a directory whose attributes are known. `real` is its path without symlinks, if known.
    pub(super) fn begin_dir(&mut self, item: Item, real: Option<Vec<u8>>) {
        let real = real.or_else(|| {
            let parent = self.tree.dirs.get(item.parent?)?;
            Some(join(parent.listing.real.as_ref()?, crate::base_name(&item.source)))
        });
        if self.tree.leads_back(&item, real.as_deref()) {
            self.report.fail(format!("{}: directory loop, not copied", display_name(&item.source)));
            self.report.missed(self.tree.path_of(&item));
            return self.child_finished(item.parent);
        }
        let above = item.parent.and_then(|parent| self.tree.dirs.get(parent)).map(|dir| &dir.relative);
        let relative = above.map_or_else(Vec::new, |above| join(above, crate::base_name(&item.source)));
        let presumed = self.presumes(&item);
        let stays = is_directory(item.there);
        let compares = self.options.tree_sync.is_some();
        let mut dir = Dir::new(item, relative, compares);
        (dir.making.ready, dir.making.presumed, dir.listing.real) = (presumed || stays, presumed, real);
        let (source, target) = (dir.item.source.clone(), dir.item.target.clone());
        let mode = dir.temporary_mode();
        let key = self.tree.dirs.insert(dir);
        self.tree.starting_dirs += 1;
        self.tree.waiting.open_dirs += 1;
        self.tree.waiting.lists += 1;
        self.tree.waiting.presumed += usize::from(presumed);
        self.tree.walk.push(key);
        if self.options.announce {
            let shown = self.tree.dirs.get(key).and_then(|dir| dir.listing.real.clone());
            let source = shown.unwrap_or_else(|| source.clone());
            self.report.event(crate::Event::Entered { source });
        }
        if stays {
            if let Some(dir) = self.tree.dirs.get_mut(key) {
                dir.answered();
            }
            self.tree.list_target(key, &mut self.ends);
        } else if self.options.dry_run {
            self.ends.answer((Token::Dir(key, DirStep::Mkdir), Ok(Done::Ok)));
        } else {
            self.ends.start(Side::Target, Op::Mkdir { path: &target, mode }, Token::Dir(key, DirStep::Mkdir));
        }
        if !self.prepare.first_flight.take_list(key, &source, &mut self.ends) {
            let list = Op::List { path: &source, pattern: b"" };
            self.ends.start(Side::Source, list, Token::Dir(key, DirStep::List));
        }
    }

    /// Returns true when the directory that is to be made for `item` was not there, so that what goes into it
    /// need not wait.
    fn presumes(&self, item: &Item) -> bool {
        self.plan.direction == Direction::Upload
            && !self.options.dry_run
            && !self.options.follows_no_links(item)
            && self.ends.target_keeps_order()
            && match item.parent {
                None => self.prepare.first_flight.is_absent(&item.target),
                Some(key) => self.tree.dirs.get(key).is_some_and(|dir| dir.created() || dir.presumed()),
            }
    }

    pub(super) fn dir_answer(&mut self, key: Key, step: DirStep, outcome: Outcome) {
        self.tree.walk_changed = true;
        let inside = self.tree.dirs.get(key).is_some_and(|dir| self.options.follows_no_links(&dir.item));
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        dir.outstanding -= 1;
        if matches!(step, DirStep::Mkdir) && dir.making.presumed {
            self.tree.waiting.presumed -= 1;
        }
        match step {
            DirStep::Mkdir => match outcome {
                Ok(_) => {
                    dir.making.created = true;
                    dir.making.ready = true;
                    self.tree.target_is_new(key);
                }
                Err(fault) if fault.kind == FaultKind::Lost => drop(self.tree.abandon_dir(key)),
                Err(fault) => {
                    if dir.making.presumed {
                        dir.making.ready = false;
                        dir.making.doubts = Some(Vec::new());
                    }
                    // SFTP has no code for "exists": look. The reason is kept for the case that it does not.
                    dir.outstanding += 1;
                    let target = dir.item.target.clone();
                    let known = self.plan.direction == Direction::Download && fault.text != "File exists";
                    if known {
                        self.ends.answer((Token::Dir(key, DirStep::Check), Err(fault)));
                    } else {
                        dir.making.fault = Some(fault);
                        let op = if inside { Op::Lstat(&target) } else { Op::Stat(&target) };
                        self.ends.start(Side::Target, op, Token::Dir(key, DirStep::Check));
                    }
                }
            },
            DirStep::Check => self.checked(key, outcome),
            DirStep::List => {
                let (tree, mut lister) = self.lister();
                tree.list_begun(key, outcome, &mut lister);
            }
            DirStep::ListMore(round) => {
                let (tree, mut lister) = self.lister();
                tree.listed(key, round, outcome, &mut lister);
            }
            DirStep::Twin => self.tree.twin_answer(key, &outcome, &mut self.report),
            DirStep::TargetList => {
                let (tree, mut lister) = self.lister();
                tree.target_list_begun(key, outcome, &mut lister);
            }
            DirStep::TargetMore(round) => {
                let (tree, mut lister) = self.lister();
                tree.target_listed(key, round, outcome, &mut lister);
            }
            DirStep::Finish => {
                if let Err(fault) = outcome
                    && fault.kind != FaultKind::Lost
                {
                    let target = dir.item.target.clone();
                    let relative = dir.relative.clone();
                    self.report.fail_attributes(wording::failed(
                        self.plan.direction,
                        FailedStep::FinishDir,
                        &target,
                        &fault,
                    ));
                    self.report.missed(Some(relative));
                }
                return self.dir_finished(key);
            }
        }
        self.compare_if_listed(key);
        self.finish_dir_if_done(key);
    }

    /// Both ends have listed the directory: what differs waits to be copied, in the order of names.
    fn compare_if_listed(&mut self, key: Key) {
        let Some(listings) = self.tree.take_listings(key) else { return };
        let Some(dir) = self.tree.dirs.get(key) else { return };
        let may_fold = !self.options.dry_run && self.ends.may_fold_names();
        let (source, directory) = (dir.item.source.clone(), dir.item.target.clone());
        if self.options.deletes() {
            let found = listings.not_at_source(&self.options.select, dir.relative(), may_fold);
            for twin in found.twins {
                let path = display_name(&join(&directory, &twin.name));
                let why = "the source has a name that differs by case only";
                self.report.skip(format!("\"{path}\" is not deleted: {why}"));
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
                self.report.skip(wording::skipped(self.plan.direction, &path()));
                continue;
            }
            self.report.summary.unchanged += 1;
            if self.options.sums.is_some() {
                let target = join(&directory, &entry.name);
                self.report.unchanged(&self.plan.target, path(), target, &entry.info, None);
            }
        }
    }

    const fn lister(&mut self) -> (&mut Tree, ListingContext<'_>) {
        let Self { plan, options, ends, report, tree, .. } = self;
        (tree, ListingContext { direction: plan.direction, options, ends, report })
    }

    /// Making the directory failed; `outcome` says what is there instead.
    fn checked(&mut self, key: Key, outcome: Outcome) {
        let Some(dir) = self.tree.dirs.get_mut(key) else { return };
        let making = dir.making.fault.take();
        let doubts = dir.making.doubts.take().unwrap_or_default();
        let fault = match outcome {
            Ok(Done::Info(info)) if matches!(info.kind, Kind::Dir | Kind::Unknown) => {
                dir.making.ready = true;
                if dir.at_target.comparing.is_some() {
                    dir.item.there = TargetEntry::Found(info);
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
        let relative = dir.relative.clone();
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
        self.report.missed(Some(relative));
    }
}

/// The target has a directory there.
fn is_directory(there: TargetEntry) -> bool {
    matches!(there, TargetEntry::Found(info) if info.kind == Kind::Dir)
}
