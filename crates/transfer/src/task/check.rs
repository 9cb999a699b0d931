//! Comparing what the target has with the source: which ranges are asked for, and what their answers say.

use std::collections::VecDeque;

use lh_sftp::RunningSum;
use lh_wire::Reader;

use crate::end::{DIGEST_BLOCK, Done, Outcome};

/// Bytes that one question for digests is about.
pub(crate) const DIGEST_RANGE: u64 = 16 << 20;

/// Bytes of one sample.
pub(crate) const SAMPLE: u64 = 32 * 1024;

/// Samples of a file.
pub(crate) const SAMPLES: u64 = 32;

/// Questions in flight: about digests, and for bytes.
pub(crate) const DIGESTS_IN_FLIGHT: usize = 8;

pub(crate) const SAMPLES_IN_FLIGHT: usize = 64;

/// How the two ends are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Digests,
    Samples,
}

/// A comparison under way.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) mode: Mode,
    pub(crate) todo: Todo,
    pub(crate) asked: VecDeque<Range>,
    /// All before this agrees.
    pub(crate) good: u64,
    /// Where it ends when all agree.
    pub(crate) end: u64,
    pub(crate) differs: bool,
}

/// Ranges to be asked about, in order.
#[derive(Debug)]
pub(crate) enum Todo {
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
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) answers: [Option<Vec<u8>>; 2],
    /// What has come of the bytes of each end: a server may give less than it was asked for.
    pub(crate) parts: [Vec<u8>; 2],
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

/// How many of the `len` bytes of a range are shown to be the same by these answers.
pub(crate) fn agreeing(mode: Mode, ours: &[u8], theirs: &[u8], len: u64) -> u64 {
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
