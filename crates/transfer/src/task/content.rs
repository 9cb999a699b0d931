//! Sums over the content of files, for [`crate::Reporting::sums`]: made of the bytes as they pass, in the
//! order of the file.
//!
//! Data that pass in another order (over several channels, or asked for again) have no sum here, nor has what
//! an earlier attempt had copied, unless the journal remembers it. The program that asked reads such a file
//! itself.

use std::collections::VecDeque;
use std::ops::Deref;

use crate::content::{ContentSum, SumAlgorithm};

/// The sum over one file.
///
/// While a thread reads or writes the next bytes, the sum is lent to it.
#[derive(Debug, Default)]
pub(crate) struct Content {
    sum: State,
    /// Holes that were passed over and not reached yet, from start to end.
    holes: VecDeque<(u64, u64)>,
}

#[derive(Debug, Default)]
enum State {
    /// Not requested, or lost.
    #[default]
    Without,
    Here(InOrder),
    Lent,
}

/// A sum over the bytes from the start of a file up to an offset.
#[derive(Debug)]
pub(crate) struct InOrder {
    sum: ContentSum,
    /// Bytes summed so far.
    at: u64,
}

impl InOrder {
    /// Adds the first `len` bytes of `slices`, which follow.
    pub(crate) fn update<S: Deref<Target = [u8]>>(&mut self, slices: &[S], mut len: usize) {
        for slice in slices {
            let slice: &[u8] = slice;
            let part = slice.get(..slice.len().min(len)).unwrap_or_default();
            self.sum.update(part);
            self.at += part.len() as u64;
            len -= part.len();
        }
    }
}

impl Content {
    /// The file is read from its start.
    pub(crate) fn begin(&mut self, algorithm: SumAlgorithm) {
        self.holes.clear();
        self.sum = State::Here(InOrder { sum: algorithm.start(), at: 0 });
    }

    /// No sum can be had of it.
    pub(crate) fn lose(&mut self) {
        self.sum = State::Without;
    }

    /// Lends the sum to be continued by the `len` bytes at `offset`. `None` without one, or where they are
    /// not the next bytes; if they have not been summed up before either, there will be no sum.
    pub(crate) fn lend(&mut self, offset: u64, len: u64) -> Option<InOrder> {
        match std::mem::take(&mut self.sum) {
            State::Here(mut sum) => {
                self.pass_holes(&mut sum);
                if offset.saturating_add(len) <= sum.at {
                    // Sent once more.
                    self.sum = State::Here(sum);
                } else if offset == sum.at {
                    self.sum = State::Lent;
                    return Some(sum);
                }
                None
            }
            State::Lent | State::Without => None,
        }
    }

    /// Takes back what was lent.
    pub(crate) fn give_back(&mut self, sum: Option<InOrder>) {
        if let (State::Lent, Some(sum)) = (&self.sum, sum) {
            self.sum = State::Here(sum);
        }
    }

    /// Adds the first `len` bytes of `slices`, which are at `offset` of the file.
    pub(crate) fn add<S: Deref<Target = [u8]>>(&mut self, offset: u64, slices: &[S], len: usize) {
        if let Some(mut sum) = self.lend(offset, len as u64) {
            sum.update(slices, len);
            self.give_back(Some(sum));
        }
    }

    fn pass_holes(&mut self, sum: &mut InOrder) {
        while let Some(&(start, end)) = self.holes.front()
            && start <= sum.at
        {
            sum.sum.update_zeros(end.saturating_sub(sum.at));
            sum.at = sum.at.max(end);
            self.holes.pop_front();
        }
    }

    /// A hole that is not read.
    pub(crate) fn add_hole(&mut self, start: u64, end: u64) {
        if !matches!(self.sum, State::Without) {
            self.holes.push_back((start, end));
        }
    }

    /// The sum of a file of `size` bytes, where all of them have passed in order.
    pub(crate) fn finish(&mut self, size: u64) -> Option<Vec<u8>> {
        let State::Here(mut sum) = std::mem::take(&mut self.sum) else { return None };
        self.pass_holes(&mut sum);
        (sum.at == size).then(|| sum.sum.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XXH3: SumAlgorithm = SumAlgorithm::Xxh3;

    fn begun() -> Content {
        let mut content = Content::default();
        content.begin(XXH3);
        content
    }

    #[test]
    fn data_and_holes_in_order_have_the_sum_of_the_file() {
        let mut content = begun();
        content.add(0, &[&b"ab"[..], b"cXX"], 3);
        content.add_hole(3, 6);
        content.add_hole(8, 9);
        content.add(6, &[&b"de"[..]], 2);
        content.add(0, &[&b"abc"[..]], 3);
        assert_eq!(content.finish(9), Some(XXH3.sum(b"abc\0\0\0de\0")));
    }

    #[test]
    fn data_out_of_order_or_missing_have_no_sum() {
        let mut content = begun();
        content.add(3, &[&b"x"[..]], 1);
        content.add(0, &[&b"abc"[..]], 3);
        assert_eq!(content.finish(4), None);
        let mut content = begun();
        content.add(0, &[&b"abc"[..]], 3);
        assert_eq!(content.finish(4), None);
        assert_eq!(Content::default().finish(0), None);
        assert_eq!(begun().finish(0), Some(XXH3.sum(b"")));
    }

    #[test]
    fn a_lent_sum_is_continued_by_one_reader_only() {
        let mut content = begun();
        let mut lent = content.lend(0, 3).expect("the first bytes");
        content.add_hole(3, 4);
        lent.update(&[&b"abc"[..]], 3);
        content.give_back(Some(lent));
        content.add(4, &[&b"d"[..]], 1);
        assert_eq!(content.finish(5), Some(XXH3.sum(b"abc\0d")));

        let mut content = begun();
        let lent = content.lend(0, 3);
        assert!(content.lend(3, 3).is_none(), "read at the same time");
        content.give_back(lent);
        assert_eq!(content.finish(3), None);
    }
}
