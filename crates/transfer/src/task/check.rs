//! Comparing what the target has with the source: which ranges are asked for, and what their answers say.

use std::collections::VecDeque;

use bytes::Bytes;
use lh_sftp::RunningSum;
use lh_wire::Reader;

use crate::end::{DIGEST_BLOCK, Done, Outcome};
pub(crate) use crate::flow::SAMPLE;
use crate::token::Side;

/// Bytes that one question for digests is about.
pub(crate) const DIGEST_RANGE: u64 = 16 << 20;

/// Samples of a file.
pub(crate) const SAMPLES: u64 = 32;

/// Questions in flight: about digests, and for bytes.
const DIGESTS_IN_FLIGHT: usize = 8;

const SAMPLES_IN_FLIGHT: usize = 64;

/// Method of comparing the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Digests,
    Samples,
}

/// A comparison under way.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) mode: Mode,
    todo: PendingRanges,
    asked: VecDeque<Range>,
    /// All bytes before this offset agree.
    good: u64,
    /// End of the comparison if all bytes agree.
    end: u64,
    pub(crate) differs: bool,
    tail: Tail,
    /// The target did not give back what it has: it is no better known than before.
    pub(crate) unreadable: bool,
}

/// What is known of the target behind the end of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// It does not matter.
    Ignored,
    /// The target has to end there, and is not asked yet.
    Unasked,
    Asked,
    Known,
}

/// Next request of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRange {
    Ask {
        offset: u64,
        len: u64,
    },
    /// The target's bytes at `end`, where none may be.
    AskTail {
        end: u64,
    },
    /// Nothing before more answers have come.
    Wait,
    /// The comparison is complete.
    End,
}

impl Check {
    pub(crate) const fn new(mode: Mode, todo: PendingRanges, end: u64) -> Self {
        Self {
            mode,
            todo,
            asked: VecDeque::new(),
            good: 0,
            end,
            differs: false,
            tail: Tail::Ignored,
            unreadable: false,
        }
    }

    /// The target has to end where the comparison ends: a longer one differs.
    pub(crate) const fn with_tail(mut self) -> Self {
        self.tail = Tail::Unasked;
        self
    }

    /// Ranges that are not answered by both ends.
    pub(crate) fn in_flight(&self) -> usize {
        self.asked.len()
    }

    /// Takes the next range, of which both ends are to be asked. `most`: ranges that may be in flight.
    pub(crate) fn next_range(&mut self, most: usize) -> NextRange {
        let limit = if self.mode == Mode::Digests { DIGESTS_IN_FLIGHT } else { SAMPLES_IN_FLIGHT };
        if self.asked.len() >= limit.min(most) {
            return NextRange::Wait;
        }
        let next = if self.differs { None } else { self.todo.next() };
        match next {
            Some((offset, len)) => {
                self.asked.push_back(Range { offset, len, ..Range::default() });
                NextRange::Ask { offset, len }
            }
            None if self.tail == Tail::Unasked && !self.differs => {
                self.tail = Tail::Asked;
                NextRange::AskTail { end: self.end }
            }
            None if self.asked.is_empty() && self.tail != Tail::Asked => NextRange::End,
            None => NextRange::Wait,
        }
    }

    fn range_mut(&mut self, offset: u64) -> Option<&mut Range> {
        self.asked.iter_mut().find(|range| range.offset == offset)
    }

    /// Adds bytes that an end has of the range at `offset`, and returns how many are missing.
    pub(crate) fn add_part(&mut self, side: Side, offset: u64, chunks: &[Bytes]) -> Option<u64> {
        let range = self.range_mut(offset)?;
        let part = &mut range.parts[side as usize];
        chunks.iter().for_each(|chunk| part.extend_from_slice(chunk));
        Some(range.len.saturating_sub(part.len() as u64))
    }

    /// The bytes that an end has of the range at `offset`: no more will come.
    pub(crate) fn take_part(&mut self, side: Side, offset: u64) -> Vec<u8> {
        self.range_mut(offset)
            .map(|range| std::mem::take(&mut range.parts[side as usize]))
            .unwrap_or_default()
    }

    /// Returns offset and length of the bytes that an end has not returned yet of the range at `offset`.
    pub(crate) fn missing(&self, side: Side, offset: u64) -> Option<(u64, u64)> {
        let range = self.asked.iter().find(|range| range.offset == offset)?;
        let got = range.parts[side as usize].len() as u64;
        Some((offset + got, range.len.saturating_sub(got)))
    }

    /// Takes in the answer of an end about the range at `offset`, and compares what both have answered.
    pub(crate) fn on_answer(&mut self, side: Side, offset: u64, bytes: Vec<u8>) {
        let Some(range) = self.range_mut(offset) else { return };
        range.answers[side as usize] = Some(bytes);
        while let Some(Range { answers: [Some(ours), Some(theirs)], offset, len, .. }) = self.asked.front() {
            let good = agreeing(self.mode, ours, theirs, *len);
            if !self.differs {
                self.good = offset + good;
                self.differs = good < *len;
            }
            self.asked.pop_front();
        }
    }

    /// Takes in whether the target ends where the comparison ends.
    pub(crate) const fn on_tail(&mut self, ends: bool) {
        self.tail = Tail::Known;
        self.differs |= !ends;
    }

    /// Returns the end of the comparison while the target is being asked what it has there.
    pub(crate) fn asked_tail(&self) -> Option<u64> {
        (self.tail == Tail::Asked).then_some(self.end)
    }

    /// Bytes of the target that are right, when the comparison has ended.
    pub(crate) const fn kept(&self) -> u64 {
        match (self.mode, self.differs) {
            (_, false) => self.end,
            (Mode::Digests, true) => self.good,
            // One wrong sample says that none of the rest can be relied on.
            (Mode::Samples, true) => 0,
        }
    }
}

/// Ranges to be asked about, in order.
#[derive(Debug)]
pub(crate) enum PendingRanges {
    /// Everything from here to the end, in steps.
    All {
        next: u64,
        end: u64,
        step: u64,
    },
    Some(VecDeque<(u64, u64)>),
}

impl Iterator for PendingRanges {
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

#[derive(Debug, Default)]
struct Range {
    offset: u64,
    len: u64,
    answers: [Option<Vec<u8>>; 2],
    /// Bytes received from each end: a server may return fewer than requested.
    parts: [Vec<u8>; 2],
}

pub(crate) fn read_sum(outcome: &Outcome) -> Option<RunningSum> {
    match outcome {
        Ok(Done::Extended(fields)) => RunningSum::read(&mut Reader::new(fields)).ok(),
        _ => None,
    }
}

/// The digests of a `check-file` reply by SHA-256.
pub(crate) fn digests_of(fields: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Reader::new(fields);
    reader.string().ok()?;
    (reader.string().ok()? == b"sha256").then(|| reader.rest().to_vec())
}

/// Returns how many of the `len` bytes of a range these answers show to be equal.
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

/// Where to look at the first `end` bytes: all of them where they are few, else the beginning, and places
/// that come closer together towards the end.
pub(crate) fn samples(end: u64) -> VecDeque<(u64, u64)> {
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

    fn all(end: u64, step: u64) -> PendingRanges {
        PendingRanges::All { next: 0, end, step }
    }

    #[test]
    fn ranges_are_asked_in_order_and_compared_in_order() {
        let mut check = Check::new(Mode::Samples, all(25, 10), 25);
        assert_eq!(check.next_range(2), NextRange::Ask { offset: 0, len: 10 });
        assert_eq!(check.next_range(2), NextRange::Ask { offset: 10, len: 10 });
        assert_eq!(check.next_range(2), NextRange::Wait, "two are in flight");
        check.on_answer(Side::Source, 10, vec![1; 10]);
        check.on_answer(Side::Target, 10, vec![1; 10]);
        assert_eq!(check.next_range(2), NextRange::Wait, "the first one is not answered");
        check.on_answer(Side::Target, 0, vec![0; 10]);
        check.on_answer(Side::Source, 0, vec![0; 10]);
        assert_eq!(check.next_range(2), NextRange::Ask { offset: 20, len: 5 });
        assert_eq!(check.next_range(2), NextRange::Wait);
        check.on_answer(Side::Source, 20, vec![2; 5]);
        check.on_answer(Side::Target, 20, vec![2; 5]);
        assert_eq!((check.next_range(2), check.differs, check.kept()), (NextRange::End, false, 25));
    }

    #[test]
    fn nothing_is_asked_behind_a_difference() {
        let mut check = Check::new(Mode::Samples, all(30, 10), 30);
        assert_eq!(check.next_range(8), NextRange::Ask { offset: 0, len: 10 });
        check.on_answer(Side::Source, 0, vec![0; 10]);
        // An end that cannot say is no proof.
        check.on_answer(Side::Target, 0, Vec::new());
        assert_eq!((check.next_range(8), check.differs, check.kept()), (NextRange::End, true, 0));
        check.on_answer(Side::Target, 0, vec![0; 10]);
        assert!(check.differs, "a range is answered once");
    }

    #[test]
    fn files_longer_than_the_compared_range_differ() {
        for (end, ends) in [(20, true), (20, false), (0, true), (0, false)] {
            let mut check = Check::new(Mode::Samples, all(end, 20), end).with_tail();
            if end > 0 {
                assert_eq!(check.next_range(2), NextRange::Ask { offset: 0, len: 20 });
            }
            assert_eq!(check.next_range(2), NextRange::AskTail { end }, "with the last range");
            assert_eq!((check.next_range(2), check.asked_tail()), (NextRange::Wait, Some(end)));
            check.on_answer(Side::Source, 0, vec![0; 20]);
            check.on_answer(Side::Target, 0, vec![0; 20]);
            assert_eq!(check.next_range(2), NextRange::Wait, "the tail is not known");
            check.on_tail(ends);
            assert_eq!((check.next_range(2), check.differs), (NextRange::End, !ends));
            assert_eq!(check.asked_tail(), None);
        }
        let mut check = Check::new(Mode::Samples, all(20, 20), 20).with_tail();
        check.next_range(1);
        check.on_answer(Side::Source, 0, vec![0; 20]);
        check.on_answer(Side::Target, 0, vec![1; 20]);
        assert_eq!(check.next_range(1), NextRange::End, "it differs already");
    }

    #[test]
    fn parts_of_a_range_are_put_together() {
        let mut check = Check::new(Mode::Samples, all(10, 10), 10);
        check.next_range(1);
        assert_eq!(check.add_part(Side::Target, 0, &[Bytes::from_static(b"012")]), Some(7));
        assert_eq!(check.missing(Side::Target, 0), Some((3, 7)));
        assert_eq!(check.missing(Side::Source, 0), Some((0, 10)));
        assert_eq!(check.add_part(Side::Target, 0, &[Bytes::from_static(b"3456789")]), Some(0));
        assert_eq!(check.take_part(Side::Target, 0), b"0123456789");
        assert_eq!((check.add_part(Side::Target, 5, &[]), check.missing(Side::Target, 5)), (None, None));
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
