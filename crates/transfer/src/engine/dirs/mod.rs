//! Directories: made before their files, listed while others are copied, finished after their last file.

mod finish;

use crate::end::{Done, Fault, FaultKind, Kind, Op, Outcome, path_of};
use crate::engine::schedule::Scheduler;
use crate::item::{Item, TargetEntry};
use crate::names::{display_name, join};
use crate::table::Key;
use crate::token::{DirStep, Side, Token};
use crate::tree::Dir;
use crate::wording::FailedStep;
use crate::{Direction, wording};

impl Scheduler<'_> {
    /// Begins with a directory whose attributes are known. `real` is its path without symlinks, if known.
    pub(super) fn begin_dir(&mut self, mut item: Item, real: Option<Vec<u8>>) {
        let real = real.or_else(|| {
            let parent = self.parts.tree.dirs.get(item.parent?)?;
            Some(join(parent.listing.real.as_ref()?, crate::base_name(&item.source)))
        });
        if self.parts.tree.leads_back(&item, real.as_deref()) {
            self.parts.report.fail(format!("{}: directory loop, not copied", display_name(&item.source)));
            self.parts.report.blame(&item.source);
            self.parts.report.missed(self.parts.tree.path_of(&item));
            return self.child_finished(item.parent);
        }
        let above = item.parent.and_then(|parent| self.parts.tree.dirs.get(parent)).map(|dir| &dir.relative);
        let relative = above.map_or_else(Vec::new, |above| join(above, crate::base_name(&item.source)));
        let presumed = self.parts.presumes(&item);
        let stays = is_directory(item.sync.there);
        let compares = self.parts.options.tree_sync.is_some();
        let turn = item.turn.take();
        let mut dir = Dir::new(item, relative, compares);
        dir.position.place = turn.map(|turn| turn.to_vec()).unwrap_or_default();
        (dir.making.ready, dir.making.presumed, dir.listing.real) = (presumed || stays, presumed, real);
        let (source, target) = (dir.item.source.clone(), dir.item.target.clone());
        let mode = dir.temporary_mode();
        let key = self.parts.tree.dirs.insert(dir);
        self.parts.tree.starting_dirs += 1;
        self.parts.tree.waiting.open_dirs += 1;
        self.parts.tree.waiting.lists += 1;
        self.parts.tree.waiting.presumed += usize::from(presumed);
        self.parts.tree.enter_walk(key);
        if self.parts.options.reporting.begun {
            let shown = self.parts.tree.dirs.get(key).and_then(|dir| dir.listing.real.clone());
            let source = shown.unwrap_or_else(|| source.clone());
            self.parts.report.event(crate::Event::Entered { source });
        }
        if stays {
            if let Some(dir) = self.parts.tree.dirs.get_mut(key) {
                dir.answered();
            }
            self.parts.tree.list_target(key, &mut self.parts.ends);
        } else if self.parts.options.dry_run {
            self.parts.ends.answer((Token::Dir(key, DirStep::Mkdir), Ok(Done::Ok)));
        } else {
            self.parts.ends.start(
                Side::Target,
                Op::Mkdir { path: &target, mode },
                Token::Dir(key, DirStep::Mkdir),
            );
        }
        if !self.parts.prepare.first_flight.take_list(key, &source, &mut self.parts.ends) {
            let list = Op::List { path: &source, pattern: b"" };
            self.parts.ends.start(Side::Source, list, Token::Dir(key, DirStep::List));
        }
    }

    pub(super) fn dir_answer(&mut self, key: Key, step: DirStep, outcome: Outcome) {
        self.parts.tree.walk_changed = true;
        let inside =
            self.parts.tree.dirs.get(key).is_some_and(|dir| self.parts.options.follows_no_links(&dir.item));
        let Some(dir) = self.parts.tree.dirs.get_mut(key) else { return };
        dir.outstanding -= 1;
        if matches!(step, DirStep::Mkdir) && dir.making.presumed {
            self.parts.tree.waiting.presumed -= 1;
        }
        match step {
            DirStep::Mkdir => match outcome {
                Ok(_) => {
                    dir.making.created = true;
                    dir.making.ready = true;
                    self.parts.tree.target_is_new(key);
                }
                Err(fault) if fault.kind == FaultKind::Lost => drop(self.parts.tree.abandon_dir(key)),
                Err(fault) => {
                    if dir.making.presumed {
                        dir.making.ready = false;
                        dir.making.doubts = Some(Vec::new());
                    }
                    // SFTP has no code for "exists": look. The reason is kept for the case that it does not.
                    dir.outstanding += 1;
                    let target = dir.item.target.clone();
                    let known =
                        self.parts.plan.direction == Direction::Download && fault.text != "File exists";
                    if known {
                        self.parts.ends.answer((Token::Dir(key, DirStep::Check), Err(fault)));
                    } else {
                        dir.making.fault = Some(fault);
                        let op = if inside { Op::Lstat(&target) } else { Op::Stat(&target) };
                        self.parts.ends.start(Side::Target, op, Token::Dir(key, DirStep::Check));
                    }
                }
            },
            DirStep::Check => {
                let may_be_link = dir.item.parent.is_none()
                    && self.parts.plan.direction != Direction::Download
                    && !inside
                    && matches!(&outcome, Err(fault) if fault.kind == FaultKind::NotFound)
                    && dir.making.fault.as_ref().is_some_and(|fault| fault.kind == FaultKind::Other);
                if may_be_link {
                    // Like scp, makes the directory that a link is to lead to.
                    dir.outstanding += 1;
                    let target = dir.item.target.clone();
                    let token = Token::Dir(key, DirStep::LinkTarget);
                    self.parts.ends.start(Side::Target, Op::RealPath(&target), token);
                } else {
                    self.parts.checked(key, outcome);
                }
            }
            DirStep::LinkTarget => match path_of(outcome) {
                Ok(path) if path != dir.item.target => {
                    dir.outstanding += 1;
                    let op = Op::Mkdir { path: &path, mode: dir.temporary_mode() };
                    self.parts.ends.start(Side::Target, op, Token::Dir(key, DirStep::MkdirBehindLink));
                }
                Ok(_) => self.parts.checked(key, Err(Fault::other("File exists"))),
                Err(fault) => self.parts.checked(key, Err(fault)),
            },
            DirStep::MkdirBehindLink => match outcome {
                Ok(_) => {
                    dir.making.fault = None;
                    dir.making.created = true;
                    dir.making.ready = true;
                    for text in dir.making.doubts.take().unwrap_or_default() {
                        self.parts.report.fail(text);
                    }
                    self.parts.tree.target_is_new(key);
                }
                Err(fault) => self.parts.checked(key, Err(fault)),
            },
            DirStep::List => {
                let (tree, mut lister) = self.parts.lister();
                tree.list_begun(key, outcome, &mut lister);
            }
            DirStep::ListMore(round) => {
                let (tree, mut lister) = self.parts.lister();
                tree.listed(key, round, outcome, &mut lister);
            }
            DirStep::Twin => self.parts.tree.twin_answer(key, &outcome, &mut self.parts.report),
            DirStep::TargetList => {
                let (tree, mut lister) = self.parts.lister();
                tree.target_list_begun(key, outcome, &mut lister);
            }
            DirStep::TargetMore(round) => {
                let (tree, mut lister) = self.parts.lister();
                tree.target_listed(key, round, outcome, &mut lister);
            }
            DirStep::Finish => {
                if let Err(fault) = outcome
                    && fault.kind != FaultKind::Lost
                {
                    let target = dir.item.target.clone();
                    let relative = dir.relative.clone();
                    self.parts.report.fail_attributes(wording::failed(
                        self.parts.plan.direction,
                        FailedStep::FinishDir,
                        &target,
                        &fault,
                    ));
                    self.parts.report.missed(Some(relative));
                }
                return self.dir_finished(key);
            }
        }
        self.parts.compare_if_listed(key);
        self.finish_dir_if_done(key);
    }
}

/// The target has a directory there.
fn is_directory(there: TargetEntry) -> bool {
    matches!(there, TargetEntry::Found(info) if info.kind == Kind::Dir)
}
