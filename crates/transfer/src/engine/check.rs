//! Is what is there already right, and is what was written what was sent?
//!
//! **Before**: the bytes that an earlier attempt has left are compared with the source before the copy goes on behind them.
//! Where the server has digests (`check-file`), all of them are, block by block, without a transfer. Elsewhere the
//! journal says how far acknowledged bytes go, and samples are read back, most of them near the end, where a machine that
//! went down loses what it had not written. What somebody else has left ([`crate::Options::adopt_partial`]) is read back
//! whole where there are no digests.
//!
//! **After**: both ends sum up what went by ([`lh_sftp::RunningSum`]), and the sums must agree before the file gets its name. Servers that
//! cannot do that have it read back ([`super::proof`]), where that is asked for.

use std::collections::VecDeque;

use lh_sftp::{RunningSum, extension};
use lh_wire::Reader;

use crate::end::{DIGEST_BLOCK, Done, Fault, Op, Outcome};
use crate::options::Verify;
use crate::table::Key;
use crate::wording::Deed;
use crate::{Direction, Event};

use super::file::FileStep;
use super::{Engine, Side, Token};

/// Bytes that one question for digests is about.
const DIGEST_RANGE: u64 = 16 << 20;

/// Bytes of one sample.
const SAMPLE: u64 = 32 * 1024;

/// Samples of a file.
const SAMPLES: u64 = 32;

/// Questions in flight: about digests, and for bytes.
const DIGESTS_IN_FLIGHT: usize = 8;
const SAMPLES_IN_FLIGHT: usize = 64;

/// Which question an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CheckStep {
    /// About the range that begins here, of this end's file.
    Range(Side, u64),
    SumBegun,
    Sum,
    /// Of one of several handles.
    StripeSum,
}

/// How the two ends are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Digests,
    Samples,
}

/// A comparison under way.
#[derive(Debug)]
pub(super) struct Check {
    mode: Mode,
    todo: Todo,
    asked: VecDeque<Range>,
    /// All before this agrees.
    good: u64,
    /// Where it ends when all agree.
    end: u64,
    differs: bool,
}

/// Ranges to be asked about, in order.
#[derive(Debug)]
enum Todo {
    /// Everything from here to the end, in steps.
    All {
        next: u64,
        end: u64,
        step: u64,
    },
    Some(VecDeque<(u64, u64)>),
}

impl Iterator for Todo {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        match self {
            Self::All { next, end, step } => {
                let (at, len) = (*next, (*step).min(*end - *next));
                *next += len;
                (len > 0).then_some((at, len))
            }
            Self::Some(ranges) => ranges.pop_front(),
        }
    }
}

#[derive(Debug)]
struct Range {
    offset: u64,
    len: u64,
    answers: [Option<Vec<u8>>; 2],
    /// What has come of the bytes of each end: a server may give less than it was asked for.
    parts: [Vec<u8>; 2],
}

impl Engine {
    /// Both ends can tell digests of open files.
    pub(super) fn can_digest(&self) -> bool {
        let ends = [&self.source, &self.target];
        ends.into_iter().flatten().all(|remote| remote.session().supports(extension::CHECK_FILE_HANDLE))
    }

    /// Compares the first `found` bytes of the target, of which the journal vouches for `known`, and begins with the data
    /// behind what agrees.
    /// `whole`: without digests all of it is read back, not samples.
    pub(super) fn begin_check(&mut self, key: Key, found: u64, known: u64, whole: bool) {
        let digests = self.can_digest();
        let Some(file) = self.files.get_mut(key) else { return };
        let (mode, end) = if digests { (Mode::Digests, found) } else { (Mode::Samples, found.min(known)) };
        let end = end.min(file.size);
        let todo = match mode {
            Mode::Digests => Todo::All { next: 0, end, step: DIGEST_RANGE },
            Mode::Samples if whole => Todo::All { next: 0, end, step: SAMPLE },
            Mode::Samples => Todo::Some(samples(end)),
        };
        file.check = Some(Check { mode, todo, asked: VecDeque::new(), good: 0, end, differs: false });
        self.ask_ranges(key);
    }

    fn ask_ranges(&mut self, key: Key) {
        loop {
            let Some(file) = self.files.get_mut(key) else { return };
            let (Some(source), Some(target), Some(check)) =
                (file.source.clone(), file.target.clone(), &mut file.check)
            else {
                return;
            };
            let most = if check.mode == Mode::Digests { DIGESTS_IN_FLIGHT } else { SAMPLES_IN_FLIGHT };
            let most = most.min(self.flow.most_requests());
            if check.asked.len() >= most {
                return;
            }
            let next = if check.differs { None } else { check.todo.next() };
            let Some((offset, len)) = next else {
                if check.asked.is_empty() {
                    self.end_check(key);
                }
                return;
            };
            let mode = check.mode;
            check.asked.push_back(Range {
                offset,
                len,
                answers: [None, None],
                parts: [Vec::new(), Vec::new()],
            });
            file.outstanding += 2;
            for (side, handle) in [(Side::Source, &source), (Side::Target, &target)] {
                let op = match mode {
                    Mode::Digests => Op::Digests { handle, offset, len },
                    Mode::Samples => Op::Peek { handle, offset, len: len as u32 },
                };
                self.start(side, op, Token::File(key, FileStep::Check(CheckStep::Range(side, offset))));
            }
        }
    }

    pub(super) fn check_answer(&mut self, key: Key, step: CheckStep, outcome: Outcome) {
        match step {
            CheckStep::Range(side, offset) => self.range_answer(key, side, offset, outcome),
            CheckStep::SumBegun => {
                if outcome.is_err()
                    && let Some(file) = self.files.get_mut(key)
                {
                    file.sum = None;
                }
            }
            CheckStep::Sum => self.sum_answer(key, outcome),
            CheckStep::StripeSum => {
                let Some(file) = self.files.get_mut(key) else { return };
                match read_sum(&outcome) {
                    Some(part) => file.their_sum.merge(part),
                    // Nothing can be said about all of it then.
                    None => file.lose_sum(),
                }
            }
        }
    }

    fn range_answer(&mut self, key: Key, side: Side, offset: u64, outcome: Outcome) {
        let Some(file) = self.files.get_mut(key) else { return };
        if file.failed {
            return;
        }
        let Some(check) = &mut file.check else { return };
        let Some(range) = check.asked.iter_mut().find(|range| range.offset == offset) else { return };
        let part = &mut range.parts[side as usize];
        let bytes = match outcome {
            Ok(Done::Digests(digests)) => digests,
            Ok(Done::Extended(fields)) => digests_of(&fields).unwrap_or_default(),
            Ok(Done::Data(data)) => {
                data.chunks().iter().for_each(|chunk| part.extend_from_slice(chunk));
                let missing = range.len.saturating_sub(part.len() as u64);
                let handle = if side == Side::Source { &file.source } else { &file.target };
                if let (false, 1.., Some(handle)) = (data.is_empty(), missing, handle.clone()) {
                    file.outstanding += 1;
                    let at = offset + part.len() as u64;
                    let op = Op::Peek { handle: &handle, offset: at, len: missing as u32 };
                    let token = Token::File(key, FileStep::Check(CheckStep::Range(side, offset)));
                    return self.start(side, op, token);
                }
                std::mem::take(part)
            }
            // An end that cannot say is no proof.
            _ => Vec::new(),
        };
        range.answers[side as usize] = Some(bytes);
        while let Some(Range { answers: [Some(ours), Some(theirs)], offset, len, .. }) = check.asked.front() {
            let good = agreeing(check.mode, ours, theirs, *len);
            if !check.differs {
                check.good = offset + good;
                check.differs = good < *len;
            }
            check.asked.pop_front();
        }
        self.ask_ranges(key);
    }

    /// Asks once more for what is missing of a range; false where nothing is.
    pub(super) fn ask_range_again(&mut self, key: Key, side: Side, offset: u64) -> bool {
        let Some(file) = self.files.get(key) else { return false };
        let handle = if side == Side::Source { &file.source } else { &file.target };
        let range =
            file.check.as_ref().and_then(|check| check.asked.iter().find(|range| range.offset == offset));
        let (Some(handle), Some(check), Some(range)) = (handle.clone(), &file.check, range) else {
            return false;
        };
        let got = range.parts[side as usize].len() as u64;
        let (at, len) = (offset + got, range.len - got);
        let op = match check.mode {
            Mode::Digests => Op::Digests { handle: &handle, offset, len: range.len },
            Mode::Samples => Op::Peek { handle: &handle, offset: at, len: len as u32 },
        };
        self.start(side, op, Token::File(key, FileStep::Check(CheckStep::Range(side, offset))));
        true
    }

    fn end_check(&mut self, key: Key) {
        let anew = self.needs_all_data();
        let Some(file) = self.files.get_mut(key) else { return };
        let Some(check) = file.check.take() else { return };
        if file.comparing {
            return self.contents_compared(key, !check.differs);
        }
        if file.place.settled {
            return self.proved(key, !check.differs);
        }
        let kept = match (check.mode, check.differs) {
            _ if anew => 0,
            (_, false) => check.end,
            (Mode::Digests, true) => check.good,
            // One wrong sample says that none of the rest can be relied on.
            (Mode::Samples, true) => 0,
        };
        file.resume_at(kept);
        if !self.accept_found(key, kept) {
            return;
        }
        let Some(file) = self.files.get_mut(key) else { return };
        if kept == 0 && self.options.resume {
            let text = format!(
                "\"{}\" does not begin as its source does: all of it is copied",
                crate::display_name(&file.item.target)
            );
            self.skip(text);
        } else if kept > 0 && !self.options.resume {
            let (source, kept, size) = (file.item.source.clone(), kept, file.size);
            self.events.push_back(Event::Resumed { source, kept, size });
        }
        self.begin_data(key);
    }

    /// Compares the first `end` bytes of both ends, which are open: all of them, or samples.
    pub(super) fn compare(&mut self, key: Key, end: u64, whole: bool, by_digests: bool) {
        let Some(file) = self.files.get_mut(key) else { return };
        let (mode, step) = if by_digests { (Mode::Digests, DIGEST_RANGE) } else { (Mode::Samples, SAMPLE) };
        let todo = if whole { Todo::All { next: 0, end, step } } else { Todo::Some(samples(end)) };
        file.check = Some(Check { mode, todo, asked: VecDeque::new(), good: 0, end, differs: false });
        self.ask_ranges(key);
    }

    /// From here on both ends sum up what goes by.
    pub(super) fn begin_sum(&mut self, key: Key) {
        let side = match self.plan.direction {
            Direction::Upload => Side::Target,
            Direction::Download => Side::Source,
            Direction::Relay => return,
        };
        let able = self.remote(side).is_some_and(|remote| remote.session().supports(extension::RUNNING_SUM));
        if self.options.verify == Verify::Off || !able {
            return;
        }
        let Some(file) = self.files.get_mut(key) else { return };
        // What is written in place may not be readable; then nothing could be said about it.
        if file.place.growing().is_none() {
            return;
        }
        let handle = if side == Side::Target { &file.target } else { &file.source };
        let Some(handle) = handle.clone() else { return };
        file.sum = Some(RunningSum::default());
        file.outstanding += 1;
        let token = Token::File(key, FileStep::Check(CheckStep::SumBegun));
        self.start(side, Op::BeginSum(&handle, self.options.verify.read_back()), token);
    }

    /// All data are on their way: asks the server for its sum, before the handles are closed.
    pub(super) fn end_sum(&mut self, key: Key) {
        let Some(file) = self.files.get_mut(key) else { return };
        if file.failed || file.sum.is_none() {
            return;
        }
        let (side, handle) = match self.plan.direction {
            Direction::Upload => (Side::Target, file.target.clone()),
            _ => (Side::Source, file.source.clone()),
        };
        let Some(handle) = handle else { return };
        file.outstanding += 1;
        let token = Token::File(key, FileStep::Check(CheckStep::Sum));
        self.start(side, Op::EndSum(&handle), token);
    }

    fn sum_answer(&mut self, key: Key, outcome: Outcome) {
        let Some(file) = self.files.get_mut(key) else { return };
        let Some(ours) = file.sum.filter(|_| !file.failed) else { return };
        let mut parts = file.their_sum;
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

    /// The target does not hold what the source does. The first time it is thrown away and copied again.
    pub(super) fn found_wrong(&mut self, key: Key) {
        let Some(file) = self.files.get_mut(key) else { return };
        file.place.corrupt = true;
        if file.item.again && file.source_after.changed().is_some() {
            let fault =
                Fault::other("the source does not stay as it is while it is copied; nothing was verified");
            return self.file_failed(key, Deed::VerifyTarget, &fault);
        }
        if file.item.again {
            let why = match file.place.growing() {
                Some(_) => "what was written is not what was sent, twice; nothing was put in its place",
                None => "what was written is not what was sent, twice",
            };
            let fault = Fault::other(why);
            return self.file_failed(key, Deed::VerifyTarget, &fault);
        }
        file.failed = true;
        file.again.clear();
        let path = crate::display_name(&file.item.target);
        self.skip(format!("verify \"{path}\": what was written is not what was sent; copying it again"));
    }
}

fn read_sum(outcome: &Outcome) -> Option<RunningSum> {
    match outcome {
        Ok(Done::Extended(fields)) => RunningSum::read(&mut Reader::new(fields)).ok(),
        _ => None,
    }
}

/// The digests of a `check-file` reply by SHA-256.
fn digests_of(fields: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(fields);
    reader.string().ok()?;
    (reader.string().ok()? == b"sha256").then(|| reader.rest().to_vec())
}

/// How many of the `len` bytes of a range are shown to be the same by these answers.
fn agreeing(mode: Mode, ours: &[u8], theirs: &[u8], len: u64) -> u64 {
    match mode {
        Mode::Samples => {
            if ours == theirs && ours.len() as u64 == len {
                len
            } else {
                0
            }
        }
        Mode::Digests => {
            let (ours, theirs) = (ours.as_chunks::<32>().0, theirs.as_chunks::<32>().0);
            let same = ours.iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
            (same as u64 * u64::from(DIGEST_BLOCK)).min(len)
        }
    }
}

/// Where to look at the first `end` bytes: all of them where they are few, else the beginning, and places that come
/// closer together towards the end.
fn samples(end: u64) -> VecDeque<(u64, u64)> {
    if end <= SAMPLE * SAMPLES {
        return (0..end).step_by(SAMPLE as usize).map(|at| (at, SAMPLE.min(end - at))).collect();
    }
    let mut places: Vec<u64> = (0..SAMPLES - 8).map(|n| (end - SAMPLE) / (SAMPLES - 8) * n).collect();
    // Halving the distance to the end each time.
    places.extend((0..8).map(|n| end - SAMPLE - ((end - SAMPLE) >> (n * 2 + 5)).min(end - SAMPLE)));
    places.push(end - SAMPLE);
    places.sort_unstable();
    places.dedup();
    places.into_iter().map(|at| (at, SAMPLE)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_inside_and_see_both_ends() {
        for end in [1, SAMPLE, SAMPLE + 1, SAMPLE * SAMPLES, SAMPLE * SAMPLES + 1, 1 << 30, u64::MAX >> 8] {
            let places = samples(end);
            assert!(places.iter().all(|&(at, len)| len > 0 && at + len <= end), "{end}");
            assert_eq!(places.front().map(|place| place.0), Some(0));
            assert_eq!(places.back().map(|&(at, len)| at + len), Some(end));
            assert!(places.len() as u64 <= SAMPLES + 1);
        }
        assert!(samples(0).is_empty());
    }

    #[test]
    fn digests_count_up_to_the_first_that_differs() {
        let (a, b) = ([1; 96], [[1; 32], [1; 32], [2; 32]].concat());
        let block = u64::from(DIGEST_BLOCK);
        assert_eq!(agreeing(Mode::Digests, &a, &a, 2 * block + 5), 2 * block + 5);
        assert_eq!(agreeing(Mode::Digests, &a, &b, 3 * block), 2 * block);
        assert_eq!(agreeing(Mode::Digests, &a, &[], 3 * block), 0);
        assert_eq!(agreeing(Mode::Samples, b"abc", b"abd", 3), 0);
        assert_eq!(agreeing(Mode::Samples, b"ab", b"ab", 3), 0);
    }
}
