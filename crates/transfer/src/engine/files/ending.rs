//! How a file ends: attributes, CLOSE, and what is told of it.

use crate::end::{Change, Done, Fault, FaultKind, Kind, Op, Outcome};
use crate::engine::Engine;
use crate::event::CopiedKind;
use crate::options::Verify;
use crate::table::Key;
use crate::task::{File, Phase};
use crate::token::{FileStep, Side, Token, Whose};
use crate::wording::Deed;
use crate::{Direction, Event, wording};

impl Engine {
    /// Sets what is to be set on the target and closes both ends.
    pub(in crate::engine) fn close_file(&mut self, key: Key) {
        let good = |file: &File| !file.failed && file.phase == Phase::Copying && file.target.is_some();
        if self.tasks.files.get(key).is_some_and(good)
            && (self.look_at_source(key) || self.keep_extras(Whose::File(key)))
        {
            return;
        }
        self.end_sum(key);
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let untouched = file.phase == Phase::Opening;
        file.phase = Phase::Closing;
        self.flow.expect(&mut file.ahead, 0);
        self.flow.let_go(file.held.values().flatten().map(|piece| piece.len() as u64).sum());
        file.held.clear();
        let (source, target) = (file.source.take(), file.target.take());
        let failed = file.failed;
        // What was asked for past the end of a file of unknown length does not count.
        let size = match self.plan.direction {
            _ if failed => file.good_end(),
            Direction::Upload => file.requested,
            Direction::Download => file.prefix,
            Direction::Relay => file.write_at,
        };
        if !failed {
            let sum = file.content.finish(size).or_else(|| file.copied.1.take());
            file.copied = (size, sum);
        }
        let mut change = Change::default();
        if self.plan.direction == Direction::Download {
            // Pieces may have been written behind a gap of a failed file; else only an old, longer tail counts.
            let written = file.old_size.map(|old| if failed { u64::MAX } else { old });
            change.size = written.filter(|&written| written > size).map(|_| size);
            if file.holes.left_out && !failed {
                change.size = Some(size);
            }
        } else {
            change.size = Some(size);
        }
        if (failed && untouched) || file.tainted {
            change = Change::default();
        }
        if failed {
            // The cut on the handle is the repair, also when its answer is a failure.
            file.repaired = true;
        } else if self.options.preserve {
            change.mode = file.item.info.mode.map(|mode| mode & file.extras.mode_mask(0o777));
            change.times = file.item.info.times;
        } else if let Some(mode) = file.place.mode_of_old() {
            change.mode = Some(mode);
        }
        file.change = change;
        let existed = file.place.growing().is_none() || file.place.goes_on();
        let size_told =
            self.ends.target.as_ref().is_some_and(|target| !target.is_ours()) && existed && !failed;
        let set = target.is_some() && change != Change::default();
        let close = target.is_some();
        let sync = close && !failed && self.options.sync;
        file.outstanding += u32::from(set) + u32::from(sync) + u32::from(close);
        if let Some(handle) = source
            && self.ends.source.is_some()
        {
            self.ends.start(Side::Source, Op::Close(handle), Token::Nothing);
        }
        if let Some(handle) = target {
            if set {
                let op = Op::SetHandle { handle: &handle, change };
                self.ends.start(Side::Target, op, Token::File(key, FileStep::Attributes));
            }
            if sync {
                self.ends.start(Side::Target, Op::Sync(&handle), Token::File(key, FileStep::Sync));
            }
            if close {
                self.ends.start(Side::Target, Op::Close(handle), Token::File(key, FileStep::CloseTarget));
            }
            if size_told && let Some(file) = self.tasks.files.get_mut(key) {
                file.outstanding += 1;
                let path = file.written_path().to_vec();
                let token = Token::File(key, FileStep::SizeAfter { tried: false });
                self.ends.start(Side::Target, Op::Stat(&path), token);
            }
        }
        if !set && !close {
            if self.tasks.files.get(key).is_some_and(|file| file.tainted) {
                // What was made for it is cleared up first.
                return self.move_on(key);
            }
            self.file_done(key);
        }
    }

    pub(super) fn file_done(&mut self, key: Key) {
        if self.try_again(key) {
            return;
        }
        let misplaced = |file: &File| !file.failed && file.place.growing().is_some();
        if self.tasks.files.get(key).is_some_and(misplaced) {
            // A fault in this engine, whatever its cause, must not pass for a copy.
            let fault =
                Fault::other("the copy is complete under the name of its part file, and was not renamed");
            self.file_failed(key, Deed::PlaceTarget, &fault);
        }
        let Some(file) = self.tasks.files.get(key) else { return };
        let flaw = file.flaw.clone().filter(|_| !file.failed);
        let changed = file.source_after.changed().filter(|_| !file.failed);
        let source = file.item.source.clone();
        let unverified = changed.is_some() && self.options.verify == Verify::Always;
        let (item, (size, sum)) = (file.item.clone(), file.copied.clone());
        let (leads, failed) = (file.leads, file.failed);
        if !failed {
            self.report.summary.verified += u64::from(file.place.compared && changed.is_none());
            self.report.summary.files += 1;
            self.report.summary.kept += file.kept;
            self.report.event(Event::FileDone {
                id: file.id,
                name: crate::base_name(&file.item.source).to_vec(),
                size: file.kept + file.confirmed,
                kept: file.kept,
                started: file.started,
            });
            if flaw.is_some() || unverified {
                self.tell_missed(&item);
            } else {
                self.tell_copied(&item, size, CopiedKind::File(sum.clone()));
            }
        }
        if let Some(flaw) = flaw {
            self.report.fail(flaw);
        }
        if let Some(changed) = changed {
            self.tell_changed(&source, changed);
        }
        self.forget_file(key);
        if leads {
            self.first_name_done(&item, failed, sum);
        }
    }

    pub(in crate::engine) fn forget_file(&mut self, key: Key) {
        if let Some(mut file) = self.tasks.remove(key) {
            self.flow.expect(&mut file.ahead, 0);
            for (side, handle) in [(Side::Source, file.source), (Side::Target, file.target)] {
                if let Some(handle) = handle {
                    self.ends.start(side, Op::Close(handle), Token::Nothing);
                }
            }
            self.child_finished(file.item.parent);
        }
    }

    /// The connection to one end is gone. A file that has begun is named; the rest go without a word each.
    pub(in crate::engine) fn file_lost(&mut self, key: Key, reason: &str) {
        let deed = match self.plan.direction {
            Direction::Download => Deed::ReadSource,
            Direction::Upload | Direction::Relay => Deed::WriteTarget,
        };
        self.file_failed(key, deed, &Fault { kind: FaultKind::Lost, text: reason.to_owned() });
        self.move_on(key);
    }

    /// Ends a file with a message. Only the first of a file's failures is told.
    pub(in crate::engine) fn file_failed(&mut self, key: Key, deed: Deed, fault: &Fault) {
        let Some(file) = self.tasks.files.get(key) else { return };
        let of_source = matches!(deed, Deed::StatSource | Deed::OpenSource | Deed::ReadSource);
        let path = if of_source { &file.item.source } else { &file.item.target };
        let text = wording::failed(self.plan.direction, deed, path, fault);
        if fault.kind == FaultKind::Lost && file.phase == Phase::Opening {
            if let Some(file) = self.tasks.files.get_mut(key) {
                file.failed = true;
            }
            return;
        }
        self.file_failed_with(key, text);
    }

    pub(in crate::engine) fn file_failed_with(&mut self, key: Key, text: String) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if !std::mem::replace(&mut file.failed, true) {
            file.again.clear();
            let item = file.item.clone();
            if !self.tree.told_by_dir(item.parent, &text) {
                self.report.fail(text);
            }
            self.tell_missed(&item);
        }
    }

    /// Servers may not set attributes of open files and yet by their path, or not at all and yet take files.
    pub(super) fn attributes_refused(&mut self, key: Key, fault: Fault) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if file.failed || fault.kind == FaultKind::Lost || self.plan.direction == Direction::Download {
            return self.file_failed(key, Deed::FinishTarget, &fault);
        }
        let change = file.change;
        file.refused = Some((fault, change));
        file.outstanding += 1;
        let target = file.written_path().to_vec();
        let token = Token::File(key, FileStep::AttributesByPath);
        self.ends.start(Side::Target, Op::SetPath { path: &target, change }, token);
    }

    pub(super) fn attributes_by_path(&mut self, key: Key, outcome: &Outcome) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.failed) else { return };
        match outcome {
            Ok(_) => file.refused = None,
            Err(fault) if fault.kind == FaultKind::Lost => self.file_failed(key, Deed::FinishTarget, fault),
            Err(_) => {
                file.outstanding += 1;
                let target = file.written_path().to_vec();
                self.ends.start(Side::Target, Op::Stat(&target), Token::File(key, FileStep::SizeCheck));
            }
        }
    }

    /// Nothing can be set: what has its size as it is, or has none (a device, a pipe), gets its name all the same. What was to
    /// be kept and is not, is told then.
    pub(super) fn size_answer(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let Some((fault, change)) = file.refused.take() else { return };
        let (special, right) = match outcome {
            Ok(Done::Info(info)) => (info.kind == Kind::Special, info.size == change.size),
            _ => (false, false),
        };
        if !right && !special {
            self.file_failed(key, Deed::FinishTarget, &fault);
        } else if self.options.preserve && !special {
            let text = wording::failed(self.plan.direction, Deed::FinishTarget, &file.item.target, &fault);
            file.flaw = Some(text);
        }
    }
}
