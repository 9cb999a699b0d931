//! Acts on the answer to each question about a file.

use crate::batch::small_files::Taken;
use crate::end::{Done, FaultKind, Kind, Op, Outcome, fault_of, path_of};
use crate::engine::schedule::Scheduler;
use crate::table::Key;
use crate::token::{FileStep, Side, Token};
use crate::wording::FailedStep;
use crate::{Direction, Event, wording};

impl Scheduler<'_> {
    pub(in crate::engine) fn file_answer(&mut self, key: Key, step: FileStep, outcome: Outcome) {
        let Some(file) = self.parts.tasks.files.get_mut(key) else { return };
        match step {
            FileStep::Read { offset, len } => {
                if let Err(fault) = self.parts.data_requests().on_answer(key, offset, len, outcome) {
                    self.parts.file_failed(key, FailedStep::ReadSource, &fault);
                }
            }
            FileStep::Write { offset, len } => {
                match self.parts.data_requests().confirmed(key, offset, len, outcome) {
                    Ok(confirmed) => {
                        self.parts.report.summary.bytes += confirmed;
                        self.parts.write_taken(key);
                    }
                    Err(fault) => self.parts.write_refused(key, &fault),
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
                        let next = self.parts.targets().old_size_came(key, &outcome);
                        self.target_next(key, next);
                    }
                    FileStep::OpenContinued => {
                        let next = self.parts.targets().opened_to_compare(key, outcome);
                        self.target_next(key, next);
                    }
                    FileStep::SizeContinued => {
                        let next = self.parts.targets().size_continued(key, &outcome);
                        self.target_next(key, next);
                    }
                    FileStep::OpenTarget => {
                        let next = self.parts.targets().opened(key, outcome);
                        self.target_next(key, next);
                    }
                    FileStep::IsPlain => self.parts.tasks.plain_answer(key, outcome),
                    FileStep::OpenOnChannel { channel } => {
                        let read_back = self.parts.options.verify.read_back();
                        self.parts.spread().opened(key, channel, outcome, read_back);
                    }
                    FileStep::SizeReopened { channel } => {
                        let gone = self.parts.spread().size_came(key, channel, &outcome);
                        self.parts.reopened(key, gone);
                    }
                    FileStep::DataReopened { channel, offset } => {
                        let gone = self.parts.spread().data_came(key, channel, offset, &outcome);
                        self.parts.reopened(key, gone);
                    }
                    FileStep::Attributes => {
                        if let Err(fault) = outcome
                            && let Some(fault) = self.parts.endings().attributes_refused(key, fault)
                        {
                            self.parts.file_failed(key, FailedStep::FinishTarget, &fault);
                        }
                    }
                    FileStep::AttributesByPath => {
                        if let Some(fault) = self.parts.endings().attributes_by_path(key, outcome) {
                            self.parts.file_failed(key, FailedStep::FinishTarget, &fault);
                        }
                    }
                    FileStep::SizeAfter => {
                        let next = self.parts.checks().size_after(key, outcome);
                        self.check_next(key, next);
                    }
                    FileStep::Contents(side) => {
                        let asked = self.parts.tasks.files.get(key).map(|file| file.started);
                        if let Some(asked) = asked {
                            self.parts.note_round_trip(side, asked);
                        }
                        let next = self.parts.checks().contents_opened(key, side, outcome);
                        self.check_next(key, next);
                    }
                    FileStep::Proof(side) => {
                        let next = self.parts.checks().proof_opened(key, side, outcome);
                        self.check_next(key, next);
                    }
                    FileStep::Ranges => {
                        if self.parts.tasks.ranges_answer(key, outcome, &mut self.parts.ends) {
                            self.parts.begin_copying(key);
                        }
                    }
                    FileStep::SizeCheck => {
                        if let Some(fault) = self.parts.endings().size_came(key, outcome) {
                            self.parts.file_failed(key, FailedStep::FinishTarget, &fault);
                        }
                    }
                    FileStep::Sync => {
                        if let Err(fault) = outcome {
                            self.parts.file_failed(key, FailedStep::SyncTarget, &fault);
                        }
                    }
                    FileStep::CloseTarget => {
                        if let Err(fault) = outcome {
                            self.parts.file_failed(key, FailedStep::CloseTarget, &fault);
                        }
                    }
                    FileStep::SourceAfter => {
                        let precision = self.parts.ends.source_precision();
                        self.parts.tasks.source_looked_at(
                            key,
                            &outcome,
                            precision,
                            self.parts.plan.direction,
                        );
                        if let Some(fault) = self.parts.tasks.size_was_wrong(key) {
                            self.parts.file_failed(key, FailedStep::ReadSource, &fault);
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
        let Some(file) = self.parts.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else {
            return;
        };
        let info = match outcome {
            Ok(Done::Info(info)) => info,
            outcome => return self.parts.file_failed(key, FailedStep::StatSource, &fault_of(outcome)),
        };
        file.item.info = info;
        match info.kind {
            Kind::Dir if self.parts.options.recursive => self.behind_link(key),
            Kind::Dir | Kind::Special => {
                let in_tree = file.item.parent.is_some() && info.kind == Kind::Special;
                let source = file.item.source.clone();
                if in_tree {
                    self.parts.report.skip(wording::skipped(self.parts.plan.direction, &source));
                    self.forget_file(key);
                } else {
                    let text = wording::not_regular(self.parts.plan.direction, &source);
                    self.parts.file_failed_with(key, text);
                }
            }
            Kind::File | Kind::Symlink | Kind::Unknown if self.parts.options.dry_run => {
                let (source, target) = (file.item.source.clone(), file.item.target.clone());
                let turn = file.item.turn.take();
                self.parts.report.planned(turn, Event::Planned { source, target, size: info.size });
                self.parts.report.summary.files += 1;
                self.forget_file(key);
            }
            Kind::File | Kind::Symlink | Kind::Unknown => {
                file.outstanding += 1;
                let source = file.item.source.clone();
                file.expect_size(info.size.unwrap_or(0), &mut self.parts.flow);
                self.parts.ends.start(
                    Side::Source,
                    Op::OpenRead(&source),
                    Token::File(key, FileStep::OpenSource),
                );
            }
        }
    }

    /// Upload that is to be resumed: how much is there?
    pub(in crate::engine) fn target_stat_answer(&mut self, key: Key, outcome: Outcome) {
        match outcome {
            Ok(Done::Info(info)) => {
                if let Some(next) = self.parts.targets().resume_behind(key, info.size.unwrap_or(0)) {
                    return self.target_next(key, next);
                }
            }
            // Nothing to go on from there; perhaps under a name of ours.
            Err(fault) if fault.kind == FaultKind::NotFound => {
                let next = self.parts.part_files().find_new(key);
                return self.place_next(key, next);
            }
            outcome => return self.parts.file_failed(key, FailedStep::OpenTarget, &fault_of(outcome)),
        }
        if self.parts.tasks.files.get(key).is_some_and(|file| !file.faults.failed) {
            let next = self.parts.targets().open(key);
            self.target_next(key, next);
        }
    }

    /// A directory that was not a plain entry of its parent. Remote ones have no inode to know them by, so
    /// their real path must do; one round trip per link and per source.
    pub(in crate::engine) fn behind_link(&mut self, key: Key) {
        let Some(file) = self.parts.tasks.files.get_mut(key) else { return };
        if self.parts.plan.direction == Direction::Upload || !file.item.linked {
            return self.become_dir(key, None);
        }
        let source = file.item.source.clone();
        if let Some(real) = self.parts.prepare.known_real(&source) {
            return self.become_dir(key, Some(real));
        }
        let Some(file) = self.parts.tasks.files.get_mut(key) else { return };
        file.outstanding += 1;
        self.parts.ends.start(Side::Source, Op::RealPath(&source), Token::File(key, FileStep::RealPath));
    }

    pub(in crate::engine) fn become_dir(&mut self, key: Key, real: Option<Vec<u8>>) {
        if let Some(file) = self.parts.tasks.files.remove(key) {
            if self
                .parts
                .ends
                .source
                .as_ref()
                .or(self.parts.ends.target.as_ref())
                .is_some_and(|remote| remote.lost())
            {
                return self.child_finished(file.item.parent);
            }
            self.parts.progress.not_files += 1;
            self.begin_dir(file.item, real);
        }
    }

    pub(in crate::engine) fn source_opened(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.parts.tasks.files.get_mut(key) else { return };
        let (handle, info) = match outcome {
            Ok(Done::Opened(handle, info)) => (handle, info.unwrap_or(file.item.info)),
            outcome => return self.parts.file_failed(key, FailedStep::OpenSource, &fault_of(outcome)),
        };
        file.handles.source = Some(handle);
        file.item.info = info;
        let asked = file.started;
        if file.faults.failed {
            return;
        }
        self.parts.note_round_trip(Side::Source, asked);
        let Some(file) = self.parts.tasks.files.get_mut(key) else { return };
        if matches!(info.kind, Kind::Dir | Kind::Special) {
            let text = wording::not_regular(self.parts.plan.direction, &file.item.source);
            return self.parts.file_failed_with(key, text);
        }
        file.requests.to_eof = info.size.unwrap_or(0) == 0;
        file.expect_size(info.size.unwrap_or(0), &mut self.parts.flow);
        self.parts.progress.bytes_found += info.size.unwrap_or(0);
        if self.joins_another(key) {
            return;
        }
        match self.parts.small_files().take_opened(key) {
            Taken::No => {}
            Taken::InBatch => return,
            Taken::Failed(fault) => return self.parts.file_failed(key, FailedStep::ReadSource, &fault),
        }
        // Nothing has been asked of the target so far.
        self.parts.ends.choose_home(key, info.size);
        let Some(file) = self.parts.tasks.files.get_mut(key) else { return };
        if self.parts.options.placing.resume
            && self.parts.plan.direction == Direction::Upload
            && !file.item.retry.fresh
        {
            file.outstanding += 1;
            let target = file.item.target.clone();
            return self.parts.ends.start(
                Side::Target,
                Op::Stat(&target),
                Token::File(key, FileStep::TargetStat),
            );
        }
        let next = self.parts.part_files().find(key);
        self.place_next(key, next);
    }
}
