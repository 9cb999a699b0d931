//! Is what is there already right, and is what was written what was sent?
//!
//! **Before**: the bytes that an earlier attempt has left are compared with the source before the copy goes on behind them.
//! Where the server has digests (`check-file`), all of them are, block by block, without a transfer. Elsewhere the
//! journal says how far acknowledged bytes go, and samples are read back, most of them near the end, where a machine that
//! went down loses what it had not written. What another program has left ([`crate::Options::adopt_partial`]) is read back
//! whole where there are no digests.
//!
//! **After**: both ends sum up what went by ([`lh_sftp::RunningSum`]), and the sums must agree before the file gets its name. Servers that
//! cannot do that have it read back ([`super::proof`]), where that is asked for.

use crate::Event;
use crate::end::{Done, Fault, FaultKind, Op, Outcome};
use crate::engine::Engine;
use crate::table::Key;
use crate::task::check::{Check, DIGEST_RANGE, Mode, NextRange, SAMPLE, Todo, digests_of, read_sum, samples};
use crate::task::state::{Found, Resuming, State, Target, Verifying};
use crate::token::{CheckStep, FileStep, Side, Token};
use crate::wording::Deed;

impl Engine {
    /// Compares the first `found` bytes of the target, of which the journal vouches for `known`, and begins with the data
    /// behind what agrees.
    /// `whole`: without digests all of it is read back, not samples.
    pub(super) fn begin_check(&mut self, key: Key, of: Found, found: u64, known: u64, whole: bool) {
        let digests = self.ends.can_digest();
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let (mode, end) = if digests { (Mode::Digests, found) } else { (Mode::Samples, found.min(known)) };
        let end = end.min(file.requests.size);
        let todo = match mode {
            Mode::Digests => Todo::All { next: 0, end, step: DIGEST_RANGE },
            Mode::Samples if whole => Todo::All { next: 0, end, step: SAMPLE },
            Mode::Samples => Todo::Some(samples(end)),
        };
        file.state = State::Resuming(Resuming { check: Check::new(mode, todo, end), of });
        self.ask_ranges(key);
    }

    fn ask_ranges(&mut self, key: Key) {
        loop {
            let Some(file) = self.tasks.files.get_mut(key) else { return };
            let (Some(source), Some(target), Some(check)) =
                (file.handles.source.clone(), file.handles.target.clone(), file.state.check_mut())
            else {
                return;
            };
            let (offset, len) = match check.next_range(self.flow.most_requests()) {
                NextRange::Ask { offset, len } => (offset, len),
                NextRange::Wait => return,
                NextRange::End => return self.end_check(key),
            };
            let mode = check.mode;
            file.outstanding += 2;
            for (side, handle) in [(Side::Source, &source), (Side::Target, &target)] {
                let op = match mode {
                    Mode::Digests => Op::Digests { handle, offset, len },
                    Mode::Samples => Op::Peek { handle, offset, len: len as u32 },
                };
                self.ends.start(side, op, Token::File(key, FileStep::Check(CheckStep::Range(side, offset))));
            }
        }
    }

    pub(super) fn check_answer(&mut self, key: Key, step: CheckStep, outcome: Outcome) {
        match step {
            CheckStep::Range(side, offset) => self.range_answer(key, side, offset, outcome),
            CheckStep::SumBegun => {
                if outcome.is_err()
                    && let Some(file) = self.tasks.files.get_mut(key)
                {
                    file.sums.ours = None;
                }
            }
            CheckStep::Sum => self.sum_answer(key, outcome),
            CheckStep::ChannelSum => {
                let Some(file) = self.tasks.files.get_mut(key) else { return };
                match read_sum(&outcome) {
                    Some(part) => file.sums.theirs.merge(part),
                    // Nothing can be said about all of it then.
                    None => file.sums.lose(),
                }
            }
        }
    }

    fn range_answer(&mut self, key: Key, side: Side, offset: u64, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if file.faults.failed {
            return;
        }
        let Some(check) = file.state.check_mut() else { return };
        let bytes = match outcome {
            Ok(Done::Digests(digests)) => digests,
            Ok(Done::Extended(fields)) => digests_of(&fields).unwrap_or_default(),
            Ok(Done::Data(data)) => {
                let Some(missing) = check.add_part(side, offset, data.chunks()) else { return };
                if missing > 0 && !data.is_empty() && file.handles.at(side).is_some() {
                    file.outstanding += 1;
                    self.ask_range_again(key, side, offset);
                    return;
                }
                check.take_part(side, offset)
            }
            // An end that cannot say is no proof.
            outcome => {
                let at_end = matches!(&outcome, Err(Fault { kind: FaultKind::Eof | FaultKind::Lost, .. }));
                check.unreadable |= side == Side::Target && !at_end;
                Vec::new()
            }
        };
        check.on_answer(side, offset, bytes);
        self.ask_ranges(key);
    }

    /// Asks once more for what is missing of a range; false where nothing is.
    pub(super) fn ask_range_again(&mut self, key: Key, side: Side, offset: u64) -> bool {
        let Some(file) = self.tasks.files.get(key) else { return false };
        let (Some(handle), Some(check)) = (file.handles.at(side).cloned(), file.state.check()) else {
            return false;
        };
        let Some((at, len)) = check.missing(side, offset) else { return false };
        let op = match check.mode {
            Mode::Digests => Op::Digests { handle: &handle, offset, len },
            Mode::Samples => Op::Peek { handle: &handle, offset: at, len: len as u32 },
        };
        self.ends.start(side, op, Token::File(key, FileStep::Check(CheckStep::Range(side, offset))));
        true
    }

    fn end_check(&mut self, key: Key) {
        let anew = self.options.needs_all_data(self.plan.direction);
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let (check, of) = match &mut file.state {
            State::Comparing(check) => {
                let Some(check) = check.take() else { return };
                return self.contents_compared(key, !check.differs);
            }
            State::Verifying(verifying) => {
                let (stage, Some(check)) = (verifying.stage, verifying.check.take()) else { return };
                return self.proved(key, stage, !check.differs);
            }
            state => match std::mem::replace(state, State::Opened(Target::Part)) {
                State::Resuming(Resuming { check, of }) => (check, of),
                other => {
                    *state = other;
                    return;
                }
            },
        };
        let kept = if anew { 0 } else { check.kept() };
        file.resume_at(kept);
        match of {
            Found::Part => {}
            Found::InPlace => {
                file.state = State::Opened(Target::InPlace);
                if check.unreadable && file.item.redone == 0 {
                    return self.begin_emptied(key);
                }
            }
            Found::Adopted(probe) => {
                if !self.accept_adopted(key, probe, kept) {
                    return;
                }
            }
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if kept == 0 && self.options.resume {
            let text = format!(
                "\"{}\" does not begin as its source does: all of it is copied",
                crate::display_name(&file.item.target)
            );
            self.report.skip(text);
        } else if kept > 0 && !self.options.resume {
            let (source, kept, size) = (file.item.source.clone(), kept, file.requests.size);
            self.report.event(Event::Resumed { source, kept, size });
        }
        self.begin_data(key);
    }

    /// Compares the first `end` bytes of both ends, which are open: all of them, or samples.
    pub(super) fn compare(&mut self, key: Key, end: u64, whole: bool, by_digests: bool) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let (State::Comparing(check) | State::Verifying(Verifying { check, .. })) = &mut file.state else {
            return;
        };
        let (mode, step) = if by_digests { (Mode::Digests, DIGEST_RANGE) } else { (Mode::Samples, SAMPLE) };
        let todo = if whole { Todo::All { next: 0, end, step } } else { Todo::Some(samples(end)) };
        *check = Some(Check::new(mode, todo, end));
        self.ask_ranges(key);
    }

    fn sum_answer(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let Some(ours) = file.sums.ours.filter(|_| !file.faults.failed) else { return };
        let mut parts = file.sums.theirs;
        let theirs = read_sum(&outcome).map(|last| {
            parts.merge(last);
            parts
        });
        match theirs {
            Some(theirs) if theirs == ours => {
                file.place.compared = true;
            }
            Some(_) => self.found_wrong(key),
            None => {
                let fault = match outcome {
                    Err(fault) => fault,
                    Ok(_) => Fault::other("Bad message"),
                };
                self.file_failed(key, Deed::VerifyTarget, &fault);
            }
        }
    }
}
