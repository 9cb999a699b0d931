//! Checks that the target's data equal the source's: before a copy continues, and after it was written.
//!
//! **Before**: the bytes that an earlier attempt has left are compared with the source before the copy goes
//! on behind them. Where the server has digests (`check-file`), all of them are, block by block, without a
//! transfer. Elsewhere the journal says how far acknowledged bytes go, and samples are read back, most of
//! them near the end, where a machine that went down loses what it had not written. What another program has
//! left ([`crate::Placing::adopt_partial`]) is read back whole where there are no digests.
//!
//! **After**: both ends sum up what went by ([`lh_sftp::RunningSum`]), and the sums must agree before the
//! file gets its name. Servers that cannot do that have it read back ([`proof`]), where that is asked for.
//!
//! What is to be asked is started here; what follows for the file is returned as [`CheckNext`].
//!
//! | module | what |
//! |---|---|
//! | [`opened`] | both files are open to be compared |
//! | [`proof`] | reading back what was written |
//! | [`sums`] | running sums of both ends |

mod opened;
mod proof;
mod sums;
#[cfg(test)]
mod tests;

use crate::end::{Done, Fault, FaultKind, Op, Outcome, fault_of};
use crate::ends::Ends;
use crate::flow::Flow;
use crate::report::Reporter;
use crate::table::Key;
use crate::task::check::{
    Check, DIGEST_RANGE, Mode, NextRange, PendingRanges, SAMPLE, digests_of, read_sum, samples,
};
use crate::task::probe::Probe;
use crate::task::queues::Tasks;
use crate::task::state::{Access, Found, Opening, Resuming, State, Target, Verifying};
use crate::token::{CheckStep, FileStep, Side, Token};
use crate::wording::FailedStep;
use crate::{Direction, Event, Options};

/// Why a source that ends too early cannot be compared.
const ENDS_EARLY: &str = "it ends before the size that it was said to have";

/// The comparisons of the files on their way.
#[derive(Debug)]
pub(crate) struct Checks<'a> {
    pub(crate) direction: Direction,
    pub(crate) options: &'a Options,
    pub(crate) tasks: &'a mut Tasks,
    pub(crate) ends: &'a mut Ends,
    pub(crate) report: &'a mut Reporter,
    pub(crate) flow: &'a mut Flow,
}

/// What follows for a file.
#[derive(Debug)]
pub(crate) enum CheckNext {
    /// Nothing before another answer has come.
    Wait,
    /// What is right of the target is known: the data follow behind it.
    Data,
    /// The first `kept` bytes of what has the final name are right.
    Adopted {
        probe: Probe,
        kept: u64,
    },
    /// What is right of the target is known, which is to be opened for writing.
    Reopen,
    /// The target cannot be read: it is opened once more, empty.
    Emptied,
    /// The file of this host that was to be continued is the beginning of something else: it stays as it is
    /// until the copy is complete.
    Anew,
    /// The contents of both ends, which are all that was asked for, are the same, or not.
    Compared {
        same: bool,
    },
    /// What was written is not what was sent.
    Wrong,
    Failed(FailedStep, Fault),
}

/// Which part of both files is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    Samples,
}

impl Checks<'_> {
    /// Compares the first `found` bytes of the target, of which the journal vouches for `known`, and begins
    /// with the data behind what agrees. `whole`: without digests all of it is read back, not samples.
    pub(crate) fn begin(&mut self, key: Key, of: Found, found: u64, known: u64, whole: bool) -> CheckNext {
        let digests = self.ends.can_digest();
        let Some(file) = self.tasks.files.get_mut(key) else { return CheckNext::Wait };
        let (mode, end) = if digests { (Mode::Digests, found) } else { (Mode::Samples, found.min(known)) };
        let end = end.min(file.requests.size);
        let todo = match mode {
            Mode::Digests => PendingRanges::All { next: 0, end, step: DIGEST_RANGE },
            Mode::Samples if whole => PendingRanges::All { next: 0, end, step: SAMPLE },
            Mode::Samples => PendingRanges::Some(samples(end)),
        };
        file.state = State::Resuming(Resuming { check: Check::new(mode, todo, end), of });
        self.ask_ranges(key)
    }

    /// Compares both ends, which are open, up to the source's end: all bytes, or samples. The target has to
    /// end there too.
    fn compare(&mut self, key: Key, end: u64, extent: Extent, mode: Mode) -> CheckNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return CheckNext::Wait };
        let (State::Comparing(check) | State::Verifying(Verifying { check, .. })) = &mut file.state else {
            return CheckNext::Wait;
        };
        let step = match mode {
            Mode::Digests => DIGEST_RANGE,
            Mode::Samples => SAMPLE,
        };
        let todo = match extent {
            Extent::Whole => PendingRanges::All { next: 0, end, step },
            Extent::Samples => PendingRanges::Some(samples(end)),
        };
        *check = Some(Check::new(mode, todo, end).with_tail());
        self.ask_ranges(key)
    }

    /// The side whose server bounds what is asked for at a time: of a relay one of the two, which get the
    /// same number of requests.
    const fn counted_side(&self) -> Side {
        match self.direction {
            Direction::Download => Side::Source,
            Direction::Upload | Direction::Relay => Side::Target,
        }
    }

    fn ask_ranges(&mut self, key: Key) -> CheckNext {
        let files = self.tasks.files.values().filter(|file| file.state.check().is_some()).count();
        loop {
            let Some(file) = self.tasks.files.get_mut(key) else { return CheckNext::Wait };
            let (Some(source), Some(target), Some(check)) =
                (&file.handles.source, &file.handles.target, file.state.check_mut())
            else {
                return CheckNext::Wait;
            };
            let most = self.flow.comparisons_of_each(files, check.in_flight(), self.ends.servers());
            let (offset, len) = match check.next_range(most) {
                NextRange::Ask { offset, len } => (offset, len),
                NextRange::AskTail { end } => {
                    file.outstanding += 1;
                    if self.counted_side() == Side::Target {
                        self.flow.in_flight.compare();
                    }
                    self.ask_tail(key, end);
                    continue;
                }
                NextRange::Wait => return CheckNext::Wait,
                NextRange::End => return self.end(key),
            };
            file.outstanding += 2;
            self.flow.in_flight.compare();
            for (side, handle) in [(Side::Source, source), (Side::Target, target)] {
                let op = match check.mode {
                    Mode::Digests => Op::Digests { handle, offset, len },
                    Mode::Samples => Op::Peek { handle, offset, len: len as u32 },
                };
                self.ends.start(side, op, Token::File(key, FileStep::Check(CheckStep::Range(side, offset))));
            }
        }
    }

    /// Takes an answer about a comparison.
    pub(crate) fn on_answer(&mut self, key: Key, step: CheckStep, outcome: Outcome) -> CheckNext {
        match step {
            CheckStep::Range(side, offset) => {
                if side == self.counted_side() {
                    self.flow.compared(outcome.is_ok());
                }
                return self.on_range(key, side, offset, outcome);
            }
            CheckStep::Tail => {
                if self.counted_side() == Side::Target {
                    self.flow.compared(outcome.is_ok());
                }
                return self.on_tail(key, &outcome);
            }
            CheckStep::SumBegun => {
                if outcome.is_err()
                    && let Some(file) = self.tasks.files.get_mut(key)
                {
                    file.sums.ours = None;
                }
            }
            CheckStep::Sum => return self.on_sum(key, outcome),
            CheckStep::ChannelSum => {
                if let Some(file) = self.tasks.files.get_mut(key) {
                    match read_sum(&outcome) {
                        Some(part) => file.sums.theirs.merge(part),
                        // Nothing can be said about all of it then.
                        None => file.sums.lose(),
                    }
                }
            }
        }
        CheckNext::Wait
    }

    fn on_range(&mut self, key: Key, side: Side, offset: u64, outcome: Outcome) -> CheckNext {
        let Some(file) = self.tasks.files.get_mut(key) else { return CheckNext::Wait };
        if file.faults.failed {
            return CheckNext::Wait;
        }
        let continues_final = file.state.continues_final();
        let Some(check) = file.state.check_mut() else { return CheckNext::Wait };
        let bytes = match outcome {
            Ok(Done::Digests(digests)) => digests,
            Ok(Done::Extended(fields)) => digests_of(&fields).unwrap_or_default(),
            Ok(Done::Data(data)) => {
                let Some(missing) = check.add_part(side, offset, data.chunks()) else {
                    return CheckNext::Wait;
                };
                if missing > 0 && !data.is_empty() && file.handles.at(side).is_some() {
                    file.outstanding += 1;
                    if side == self.counted_side() {
                        self.flow.in_flight.compare();
                    }
                    self.ask_range_again(key, side, offset);
                    return CheckNext::Wait;
                }
                check.take_part(side, offset)
            }
            // Nothing is known of what the target has then: it stays as it is.
            outcome if side == Side::Source && continues_final => {
                self.tasks.leave_target_alone(key);
                let fault = match fault_of(outcome) {
                    Fault { kind: FaultKind::Eof, .. } => Fault::other(ENDS_EARLY),
                    fault => fault,
                };
                return CheckNext::Failed(FailedStep::ReadSource, fault);
            }
            // An end that cannot say is no proof.
            outcome => {
                let at_end = matches!(&outcome, Err(Fault { kind: FaultKind::Eof | FaultKind::Lost, .. }));
                check.unreadable |= side == Side::Target && !at_end;
                Vec::new()
            }
        };
        check.on_answer(side, offset, bytes);
        self.ask_ranges(key)
    }

    /// Asks for a byte at `end`, in a file that has to end there. A READ, and not FSTAT: what readers of the
    /// file get is what counts, and there are servers that know no sizes.
    fn ask_tail(&mut self, key: Key, end: u64) {
        let Some(handle) = self.tasks.files.get(key).and_then(|file| file.handles.target.as_ref()) else {
            return;
        };
        let op = Op::Peek { handle, offset: end, len: 1 };
        self.ends.start(Side::Target, op, Token::File(key, FileStep::Check(CheckStep::Tail)));
    }

    fn on_tail(&mut self, key: Key, outcome: &Outcome) -> CheckNext {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else {
            return CheckNext::Wait;
        };
        let Some(check) = file.state.check_mut() else { return CheckNext::Wait };
        // An end that cannot say is no proof.
        let ends = match outcome {
            Ok(Done::Data(data)) => data.is_empty(),
            outcome => matches!(outcome, Err(Fault { kind: FaultKind::Eof, .. })),
        };
        check.on_tail(ends);
        self.ask_ranges(key)
    }

    /// Asks once more for what is behind the last range; false where that is not awaited.
    pub(crate) fn ask_tail_again(&mut self, key: Key) -> bool {
        let file = self.tasks.files.get(key).filter(|file| file.handles.target.is_some());
        let Some(end) = file.and_then(|file| file.state.check()?.asked_tail()) else { return false };
        self.ask_tail(key, end);
        true
    }

    /// Asks once more for what is missing of a range; false where nothing is.
    pub(crate) fn ask_range_again(&mut self, key: Key, side: Side, offset: u64) -> bool {
        let Some(file) = self.tasks.files.get(key) else { return false };
        let (Some(handle), Some(check)) = (file.handles.at(side), file.state.check()) else {
            return false;
        };
        let Some((at, len)) = check.missing(side, offset) else { return false };
        let op = match check.mode {
            Mode::Digests => Op::Digests { handle, offset, len },
            Mode::Samples => Op::Peek { handle, offset: at, len: len as u32 },
        };
        self.ends.start(side, op, Token::File(key, FileStep::Check(CheckStep::Range(side, offset))));
        true
    }

    fn end(&mut self, key: Key) -> CheckNext {
        let anew = self.options.reporting.needs_all_data(self.direction);
        let Some(file) = self.tasks.files.get_mut(key) else { return CheckNext::Wait };
        let (check, of) = match &mut file.state {
            State::Comparing(check) => {
                let Some(check) = check.take() else { return CheckNext::Wait };
                return CheckNext::Compared { same: !check.differs };
            }
            State::Verifying(verifying) => {
                let (stage, Some(check)) = (verifying.stage, verifying.check.take()) else {
                    return CheckNext::Wait;
                };
                return self.proved(key, stage, !check.differs);
            }
            state => match std::mem::replace(state, State::Opened(Target::Part)) {
                State::Resuming(Resuming { check, of }) => (check, of),
                other => {
                    *state = other;
                    return CheckNext::Wait;
                }
            },
        };
        let kept = if anew { 0 } else { check.kept() };
        file.resume_at(kept);
        match of {
            Found::Part => {}
            Found::InPlace => {
                file.state = State::Opened(Target::InPlace);
                if check.unreadable && file.item.retry.redone == 0 {
                    return CheckNext::Emptied;
                }
                if self.direction == Direction::Download {
                    if anew || check.differs {
                        file.resume_at(0);
                        self.report_kept(key);
                        return CheckNext::Anew;
                    }
                    // From now on it grows.
                    file.handles.old_size = Some(file.handles.least);
                }
            }
            Found::ToContinue => {
                file.state = State::Opening(Opening::InPlace(Access::Compared));
                if check.unreadable && file.item.retry.redone == 0 {
                    return CheckNext::Emptied;
                }
                self.report_kept(key);
                return CheckNext::Reopen;
            }
            Found::Adopted(probe) => return CheckNext::Adopted { probe, kept },
        }
        self.report_kept(key);
        CheckNext::Data
    }

    /// Says how much of a file is kept, where that is not what is expected.
    pub(crate) fn report_kept(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get(key) else { return };
        let kept = file.taken.kept;
        if kept == 0 && self.options.placing.resume {
            let text = format!(
                "\"{}\" does not begin as its source does: all of it is copied",
                crate::display_name(&file.item.target)
            );
            self.report.skip(text);
        } else if kept > 0 && !self.options.placing.resume {
            let (source, size) = (file.item.source.clone(), file.requests.size);
            self.report.event(Event::Resumed { source, kept, size });
        }
    }
}
