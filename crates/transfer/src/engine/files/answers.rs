//! Acts on the answer to each question about a file.

use crate::batch::small_files::Taken;
use crate::end::{Done, FaultKind, Kind, Op, Outcome, fault_of, path_of};
use crate::engine::Engine;
use crate::table::Key;
use crate::token::{FileStep, Side, Token};
use crate::wording::FailedStep;
use crate::{Direction, Event, wording};

impl Engine {
    pub(in crate::engine) fn file_answer(&mut self, key: Key, step: FileStep, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        match step {
            FileStep::Read { offset, len } => {
                if let Err(fault) = self.data_requests().came(key, offset, len, outcome) {
                    self.file_failed(key, FailedStep::ReadSource, &fault);
                }
            }
            FileStep::Write { offset, len } => {
                match self.data_requests().confirmed(key, offset, len, outcome) {
                    Ok(confirmed) => self.report.summary.bytes += confirmed,
                    Err(fault) => self.write_refused(key, &fault),
                }
            }
            _ => {
                file.outstanding -= 1;
                match step {
                    FileStep::Stat => self.stat_answer(key, outcome),
                    FileStep::TargetStat => self.target_stat_answer(key, outcome),
                    FileStep::RealPath => return self.become_dir(key, path_of(outcome).ok()),
                    FileStep::OpenSource => self.source_opened(key, outcome),
                    FileStep::OldSize => {
                        let next = self.targets().old_size_came(key, &outcome);
                        self.target_next(key, next);
                    }
                    FileStep::OpenContinued => {
                        let next = self.targets().opened_to_compare(key, outcome);
                        self.target_next(key, next);
                    }
                    FileStep::SizeContinued => {
                        let next = self.targets().size_continued(key, &outcome);
                        self.target_next(key, next);
                    }
                    FileStep::OpenTarget => {
                        let next = self.targets().opened(key, outcome);
                        self.target_next(key, next);
                    }
                    FileStep::IsPlain => self.tasks.plain_answer(key, outcome),
                    FileStep::OpenOnChannel { channel } => {
                        let read_back = self.options.verify.read_back();
                        self.spread().opened(key, channel, outcome, read_back);
                    }
                    FileStep::SizeReopened { channel } => self.size_reopened(key, channel, &outcome),
                    FileStep::Attributes => {
                        if let Err(fault) = outcome
                            && let Some(fault) = self.endings().attributes_refused(key, fault)
                        {
                            self.file_failed(key, FailedStep::FinishTarget, &fault);
                        }
                    }
                    FileStep::AttributesByPath => {
                        if let Some(fault) = self.endings().attributes_by_path(key, outcome) {
                            self.file_failed(key, FailedStep::FinishTarget, &fault);
                        }
                    }
                    FileStep::SizeAfter => {
                        let next = self.checks().size_after(key, outcome);
                        self.check_next(key, next);
                    }
                    FileStep::Contents(side) => {
                        let next = self.checks().contents_opened(key, side, outcome);
                        self.check_next(key, next);
                    }
                    FileStep::Proof(side) => {
                        let next = self.checks().proof_opened(key, side, outcome);
                        self.check_next(key, next);
                    }
                    FileStep::Ranges => {
                        if self.tasks.ranges_answer(key, outcome, &mut self.ends) {
                            self.begin_copying(key);
                        }
                    }
                    FileStep::SizeCheck => {
                        if let Some(fault) = self.endings().size_came(key, outcome) {
                            self.file_failed(key, FailedStep::FinishTarget, &fault);
                        }
                    }
                    FileStep::Sync => {
                        if let Err(fault) = outcome {
                            self.file_failed(key, FailedStep::SyncTarget, &fault);
                        }
                    }
                    FileStep::CloseTarget => {
                        if let Err(fault) = outcome {
                            self.file_failed(key, FailedStep::CloseTarget, &fault);
                        }
                    }
                    FileStep::SourceAfter => {
                        let precision = self.ends.source_precision();
                        self.tasks.source_looked_at(key, &outcome, precision, self.plan.direction);
                        if let Some(fault) = self.tasks.size_was_wrong(key) {
                            self.file_failed(key, FailedStep::ReadSource, &fault);
                        }
                    }
                    FileStep::Place(step) => self.place_answer(key, step, outcome),
                    FileStep::Check(step) => self.check_answer(key, step, outcome),
                    // The failure is reported already; that the cut failed too is nothing new.
                    FileStep::Repair
                    | FileStep::CloseOnChannel
                    | FileStep::Read { .. }
                    | FileStep::Write { .. } => {}
                }
            }
        }
        self.move_on(key);
    }

    pub(in crate::engine) fn stat_answer(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        let info = match outcome {
            Ok(Done::Info(info)) => info,
            outcome => return self.file_failed(key, FailedStep::StatSource, &fault_of(outcome)),
        };
        file.item.info = info;
        match info.kind {
            Kind::Dir if self.options.recursive => self.behind_link(key),
            Kind::Dir | Kind::Special => {
                let in_tree = file.item.parent.is_some() && info.kind == Kind::Special;
                let source = file.item.source.clone();
                if in_tree {
                    self.report.skip(wording::skipped(self.plan.direction, &source));
                    self.forget_file(key);
                } else {
                    let text = wording::not_regular(self.plan.direction, &source);
                    self.file_failed_with(key, text);
                }
            }
            Kind::File | Kind::Symlink | Kind::Unknown if self.options.dry_run => {
                let (source, target) = (file.item.source.clone(), file.item.target.clone());
                self.report.event(Event::Planned { source, target, size: info.size });
                self.report.summary.files += 1;
                self.forget_file(key);
            }
            Kind::File | Kind::Symlink | Kind::Unknown => {
                file.outstanding += 1;
                let source = file.item.source.clone();
                file.expect_size(info.size.unwrap_or(0), &mut self.flow);
                self.ends.start(Side::Source, Op::OpenRead(&source), Token::File(key, FileStep::OpenSource));
            }
        }
    }

    /// Upload that is to be resumed: how much is there?
    pub(in crate::engine) fn target_stat_answer(&mut self, key: Key, outcome: Outcome) {
        match outcome {
            Ok(Done::Info(info)) => {
                if let Some(next) = self.targets().resume_behind(key, info.size.unwrap_or(0)) {
                    return self.target_next(key, next);
                }
            }
            // Nothing to go on from there; perhaps under a name of ours.
            Err(fault) if fault.kind == FaultKind::NotFound => {
                let next = self.part_files().find_new(key);
                return self.place_next(key, next);
            }
            outcome => return self.file_failed(key, FailedStep::OpenTarget, &fault_of(outcome)),
        }
        if self.tasks.files.get(key).is_some_and(|file| !file.faults.failed) {
            let next = self.targets().open(key);
            self.target_next(key, next);
        }
    }

    /// A directory that was not a plain entry of its parent. Remote ones have no inode to know them by, so
    /// their real path must do; one round trip per link and per source.
    pub(in crate::engine) fn behind_link(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if self.plan.direction == Direction::Upload || !file.item.linked {
            return self.become_dir(key, None);
        }
        let source = file.item.source.clone();
        if let Some(real) = self.prepare.known_real(&source) {
            return self.become_dir(key, Some(real));
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.outstanding += 1;
        self.ends.start(Side::Source, Op::RealPath(&source), Token::File(key, FileStep::RealPath));
    }

    pub(in crate::engine) fn become_dir(&mut self, key: Key, real: Option<Vec<u8>>) {
        if let Some(file) = self.tasks.files.remove(key) {
            if self.ends.source.as_ref().or(self.ends.target.as_ref()).is_some_and(|remote| remote.lost()) {
                return self.child_finished(file.item.parent);
            }
            self.progress.not_files += 1;
            self.begin_dir(file.item, real);
        }
    }

    pub(in crate::engine) fn source_opened(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let (handle, info) = match outcome {
            Ok(Done::Opened(handle, info)) => (handle, info.unwrap_or(file.item.info)),
            outcome => return self.file_failed(key, FailedStep::OpenSource, &fault_of(outcome)),
        };
        file.handles.source = Some(handle);
        file.item.info = info;
        let asked = file.started;
        if file.faults.failed {
            return;
        }
        self.note_round_trip(Side::Source, asked);
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if matches!(info.kind, Kind::Dir | Kind::Special) {
            let text = wording::not_regular(self.plan.direction, &file.item.source);
            return self.file_failed_with(key, text);
        }
        file.requests.to_eof = info.size.unwrap_or(0) == 0;
        file.expect_size(info.size.unwrap_or(0), &mut self.flow);
        self.progress.bytes_found += info.size.unwrap_or(0);
        if self.joins_another(key) {
            return;
        }
        match self.small_files().take_opened(key) {
            Taken::No => {}
            Taken::InBatch => return,
            Taken::Failed(fault) => return self.file_failed(key, FailedStep::ReadSource, &fault),
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if self.options.resume && self.plan.direction == Direction::Upload && !file.item.fresh {
            file.outstanding += 1;
            let target = file.item.target.clone();
            return self.ends.start(Side::Target, Op::Stat(&target), Token::File(key, FileStep::TargetStat));
        }
        let next = self.part_files().find(key);
        self.place_next(key, next);
    }
}
