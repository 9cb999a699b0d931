//! [`Slices`]: the memory of a reservation, which may lie in several packets.

use std::io::IoSliceMut;
use std::ops::{Deref, DerefMut};

/// Number of slices that need no allocation: a read of 256 KiB in packets of 32 KiB, with its headers.
const INLINE: usize = 12;

/// Writable memory in pieces, to be filled in order; for `readv` and its relatives. It may hold old bytes.
pub struct Slices<'a> {
    inline: [IoSliceMut<'a>; INLINE],
    /// Number of slices in `inline`; 0 when they are in `spilled`.
    count: usize,
    spilled: Vec<IoSliceMut<'a>>,
}

impl<'a> Slices<'a> {
    /// Creates a list without memory.
    pub fn new() -> Self {
        Self { inline: std::array::from_fn(|_| IoSliceMut::new(&mut [])), count: 0, spilled: Vec::new() }
    }

    /// Appends a slice.
    pub fn push(&mut self, slice: &'a mut [u8]) {
        let slice = IoSliceMut::new(slice);
        if self.spilled.is_empty() {
            if let Some(place) = self.inline.get_mut(self.count) {
                *place = slice;
                self.count += 1;
                return;
            }
            self.count = 0;
            self.spilled
                .extend(self.inline.iter_mut().map(|each| std::mem::replace(each, IoSliceMut::new(&mut []))));
        }
        self.spilled.push(slice);
    }

    /// Returns the total length, bytes.
    pub fn total(&self) -> usize {
        self.iter().map(|slice| slice.len()).sum()
    }

    /// Returns the memory behind the first `skip` bytes.
    pub fn behind(&mut self, mut skip: usize) -> Slices<'_> {
        let mut behind = Slices::new();
        for slice in self.iter_mut() {
            let skipped = skip.min(slice.len());
            skip -= skipped;
            let (_, rest) = slice.split_at_mut(skipped);
            if !rest.is_empty() {
                behind.push(rest);
            }
        }
        behind
    }

    /// Leaves out the first `skip` bytes of each slice.
    pub fn skip_each(&mut self, skip: usize) {
        for slice in self.iter_mut() {
            slice.advance(skip.min(slice.len()));
        }
    }

    /// Copies the start of `bytes` to the start of the memory. Returns the number of bytes copied.
    pub fn put(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        for slice in self.iter_mut() {
            let (now, later) = rest.split_at(rest.len().min(slice.len()));
            if let Some(place) = slice.get_mut(..now.len()) {
                place.copy_from_slice(now);
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        bytes.len() - rest.len()
    }
}

impl Default for Slices<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Deref for Slices<'a> {
    type Target = [IoSliceMut<'a>];

    fn deref(&self) -> &Self::Target {
        if self.spilled.is_empty() {
            self.inline.get(..self.count).unwrap_or_default()
        } else {
            &self.spilled
        }
    }
}

impl DerefMut for Slices<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        if self.spilled.is_empty() {
            self.inline.get_mut(..self.count).unwrap_or_default()
        } else {
            &mut self.spilled
        }
    }
}

impl<'a> FromIterator<&'a mut [u8]> for Slices<'a> {
    fn from_iter<I: IntoIterator<Item = &'a mut [u8]>>(iter: I) -> Self {
        let mut slices = Self::new();
        iter.into_iter().for_each(|slice| slices.push(slice));
        slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_slices_keeps_its_order() {
        for size in 1..=9 {
            let mut buffers = vec![vec![0_u8; size]; 40 / size + 1];
            let total = buffers.len() * size;
            let mut slices: Slices<'_> = buffers.iter_mut().map(|buffer| &mut buffer[..]).collect();
            assert_eq!((slices.len(), slices.total()), (40 / size + 1, total), "slices of {size}");
            assert_eq!(slices.put(b"head0"), 5);
            let mut behind = slices.behind(5);
            assert_eq!(behind.total(), total - 5);
            assert_eq!(behind.put(b"file bytes"), 10);
            assert_eq!(&buffers.concat()[..15], b"head0file bytes", "slices of {size}");
        }
    }

    #[test]
    fn bytes_that_do_not_fit_are_not_copied() {
        let mut buffers = [[0_u8; 2]; 2];
        let mut slices: Slices<'_> = buffers.iter_mut().map(|buffer| &mut buffer[..]).collect();
        assert_eq!(slices.put(b"12345"), 4);
        assert_eq!(slices.behind(3).put(b"abc"), 1);
        assert!(slices.behind(4).is_empty() && slices.behind(5).is_empty());
        assert_eq!(buffers.concat(), b"123a");
        assert_eq!(Slices::new().put(b"1"), 0);
    }
}
