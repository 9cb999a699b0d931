//! Which bytes of a copy the target has taken.

use std::collections::BTreeMap;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct ConfirmedRanges {
    /// Bytes that were there before: the copy is resumed behind them.
    pub(crate) kept: u64,
    /// Bytes that have been taken since.
    pub(crate) confirmed: u64,
    /// All bytes before this offset have been taken.
    pub(crate) prefix: u64,
    /// Ranges behind `prefix` that have been taken, from start to end.
    pub(crate) islands: BTreeMap<u64, u64>,
    /// Bytes of the source end here; zeros may have been sent behind them.
    pub(crate) real_end: u64,
}

impl Default for ConfirmedRanges {
    fn default() -> Self {
        Self { kept: 0, confirmed: 0, prefix: 0, islands: BTreeMap::new(), real_end: u64::MAX }
    }
}

impl ConfirmedRanges {
    /// The target has taken `len` bytes from `offset` on.
    pub(crate) fn confirm(&mut self, offset: u64, len: u64) {
        self.confirmed += len;
        let end = offset.saturating_add(len);
        if offset > self.prefix {
            let known = self.islands.entry(offset).or_default();
            *known = end.max(*known);
            return;
        }
        self.prefix = self.prefix.max(end);
        while let Some(island) = self.islands.first_entry() {
            if *island.key() > self.prefix {
                break;
            }
            self.prefix = self.prefix.max(island.remove());
        }
    }

    /// Returns the length of the target that is known to be right.
    pub(crate) fn good_end(&self) -> u64 {
        self.prefix.min(self.real_end)
    }

    /// Bytes behind a gap: only a source that changes while it is read leaves them.
    pub(crate) fn has_gap(&self) -> bool {
        !self.islands.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_prefix_is_what_has_come_without_a_gap(
            order in Just((0..20_u64).collect::<Vec<_>>()).prop_shuffle(),
            stop in 0..20_usize,
        ) {
            let mut taken = ConfirmedRanges::default();
            for &block in &order[..stop] {
                taken.confirm(block * 10, 10);
            }
            let done = &order[..stop];
            let expected = (0..20).find(|block| !done.contains(block)).unwrap_or(20) * 10;
            prop_assert_eq!(taken.prefix, expected);
            prop_assert_eq!(taken.confirmed, stop as u64 * 10);
            prop_assert_eq!(taken.has_gap(), expected != stop as u64 * 10);
        }
    }
}
