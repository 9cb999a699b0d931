//! Sums over the content of files, for [`crate::Options::sums`]: made of the bytes as they pass, in the order of the file.
//!
//! Data that pass in another order (over several channels, or asked for again) have no sum here, nor has what an earlier attempt
//! had copied, unless the journal remembers it. The program that asked reads such a file itself.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Deref;

use crate::content::{ContentSum, SumAlgorithm};

/// The sum over one file. Interior mutability, because data are summed while they are laid out behind shared borrows.
#[derive(Debug, Default)]
pub(crate) struct Content(pub(crate) RefCell<Option<InOrder>>);

#[derive(Debug)]
pub(crate) struct InOrder {
    pub(crate) sum: ContentSum,
    /// Bytes summed so far.
    pub(crate) at: u64,
    /// Holes that were passed over and not reached yet, from start to end.
    pub(crate) holes: VecDeque<(u64, u64)>,
}

impl InOrder {
    pub(crate) fn pass_holes(&mut self) {
        while let Some(&(start, end)) = self.holes.front()
            && start <= self.at
        {
            self.sum.update_zeros(end.saturating_sub(self.at));
            self.at = self.at.max(end);
            self.holes.pop_front();
        }
    }
}

impl Content {
    /// The file is read from its start.
    pub(crate) fn begin(&self, algorithm: SumAlgorithm) {
        let sum = algorithm.start();
        self.0.replace(Some(InOrder { sum, at: 0, holes: VecDeque::new() }));
    }

    /// No sum can be had of it.
    pub(crate) fn lose(&self) {
        self.0.take();
    }

    /// The first `len` bytes of `slices` stand at `offset` of the file.
    pub(crate) fn add<S: Deref<Target = [u8]>>(&self, offset: u64, slices: &[S], mut len: usize) {
        let mut cell = self.0.borrow_mut();
        let Some(state) = &mut *cell else { return };
        state.pass_holes();
        if offset.saturating_add(len as u64) <= state.at {
            // Sent once more.
            return;
        }
        if offset != state.at {
            *cell = None;
            return;
        }
        for slice in slices {
            let slice: &[u8] = slice;
            let part = slice.get(..slice.len().min(len)).unwrap_or_default();
            state.sum.update(part);
            state.at += part.len() as u64;
            len -= part.len();
        }
    }

    /// A hole that is not read.
    pub(crate) fn add_hole(&self, start: u64, end: u64) {
        if let Some(state) = &mut *self.0.borrow_mut() {
            state.holes.push_back((start, end));
        }
    }

    /// The sum of a file of `size` bytes, where all of them have passed in order.
    pub(crate) fn finish(&self, size: u64) -> Option<Vec<u8>> {
        let mut state = self.0.take()?;
        state.pass_holes();
        (state.at == size).then(|| state.sum.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const XXH3: SumAlgorithm = SumAlgorithm::Xxh3;

    fn begun() -> Content {
        let content = Content::default();
        content.begin(XXH3);
        content
    }

    #[test]
    fn data_and_holes_in_order_have_the_sum_of_the_file() {
        let content = begun();
        content.add(0, &[&b"ab"[..], b"cXX"], 3);
        content.add_hole(3, 6);
        content.add_hole(8, 9);
        content.add(6, &[&b"de"[..]], 2);
        content.add(0, &[&b"abc"[..]], 3);
        assert_eq!(content.finish(9), Some(XXH3.sum(b"abc\0\0\0de\0")));
    }

    #[test]
    fn data_out_of_order_or_missing_have_no_sum() {
        let content = begun();
        content.add(3, &[&b"x"[..]], 1);
        content.add(0, &[&b"abc"[..]], 3);
        assert_eq!(content.finish(4), None);
        let content = begun();
        content.add(0, &[&b"abc"[..]], 3);
        assert_eq!(content.finish(4), None);
        assert_eq!(Content::default().finish(0), None);
        assert_eq!(begun().finish(0), Some(XXH3.sum(b"")));
    }
}
