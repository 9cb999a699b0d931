//! A set of serial numbers, and its compact encoding.

use lh_wire::{Reader, WireError, Writer};
use std::collections::BTreeMap;

pub(super) const LIST: u8 = 0x20;
pub(super) const RANGE: u8 = 0x21;
pub(super) const BITMAP: u8 = 0x22;

/// Length of a section's type and length, bytes.
const HEAD: u64 = 5;
/// Length of an encoded range with its header, bytes.
const RANGE_COST: u64 = HEAD + 16;
/// Limit of bits in a bitmap: OpenSSH accepts no longer `mpint`.
const MAX_BITS: u64 = 16_000;

/// Runs of numbers, first → last, that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Serials {
    runs: BTreeMap<u64, u64>,
}

impl Serials {
    pub(super) fn contains(&self, serial: u64) -> bool {
        self.runs.range(..=serial).next_back().is_some_and(|(_, last)| serial <= *last)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().map(|(first, last)| (*first, *last))
    }

    /// Adds `first` to `last`; does nothing when `first` is greater.
    pub(super) fn insert(&mut self, mut first: u64, mut last: u64) {
        if first > last {
            return;
        }
        if let Some((before, end)) = self.runs.range(..first).next_back()
            && end.saturating_add(1) >= first
        {
            first = *before;
            last = last.max(*end);
        }
        while let Some((start, end)) = self.runs.range(first..=last.saturating_add(1)).next() {
            let (start, end) = (*start, *end);
            last = last.max(end);
            self.runs.remove(&start);
        }
        self.runs.insert(first, last);
    }

    /// Adds the numbers of a bitmap: an offset, and an `mpint` whose bit 0 represents the offset itself.
    /// Numbers beyond 64 bits, and zero, are errors.
    pub(super) fn read_bitmap(&mut self, reader: &mut Reader<'_>) -> Result<(), WireError> {
        const BAD: WireError = WireError::Invalid { what: "KRL bitmap" };
        let offset = reader.u64()?;
        let bitmap = reader.mpint()?.magnitude();
        let mut run: Option<(u64, u64)> = None;
        for (place, byte) in (0u64..).zip(bitmap.iter().rev()) {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                let serial = offset.checked_add(place * 8 + bit).filter(|serial| *serial != 0).ok_or(BAD)?;
                match &mut run {
                    Some((_, last)) if *last + 1 == serial => *last = serial,
                    _ => {
                        if let Some((first, last)) = run.replace((serial, serial)) {
                            self.insert(first, last);
                        }
                    }
                }
            }
        }
        if let Some((first, last)) = run {
            self.insert(first, last);
        }
        Ok(())
    }

    /// Writes sections that encode the set: bitmaps for dense numbers, ranges for long runs, lists for the
    /// rest.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut runs = self.iter().peekable();
        let mut list = Vec::new();
        while let Some(run) = runs.next() {
            // Collects runs that cost fewer bytes as further bits of one bitmap than as separate sections.
            let mut cluster = vec![run];
            let mut apart = cost(run);
            while let Some(next) = runs.peek() {
                let end = cluster.last().map_or(run.1, |last| last.1);
                let more_bits = next.1 - end;
                if next.1 - run.0 >= MAX_BITS || more_bits.div_ceil(8) > cost(*next) {
                    break;
                }
                apart = apart.saturating_add(cost(*next));
                cluster.extend(runs.next());
            }
            let last = cluster.last().map_or(run.1, |last| last.1);
            let bits = last - run.0;
            if cluster.len() > 1 && bits < MAX_BITS && HEAD + 8 + 4 + 1 + bits.div_ceil(8) < apart {
                flush(&mut list, out);
                write_bitmap(run.0, &cluster, out);
                continue;
            }
            for (first, last) in cluster {
                if 8 * (last - first).saturating_add(1).min(8) <= RANGE_COST {
                    (first..=last).for_each(|serial| list.push(serial));
                } else {
                    flush(&mut list, out);
                    out.put_u8(RANGE);
                    out.nested(|out| {
                        out.put_u64(first);
                        out.put_u64(last);
                    });
                }
            }
        }
        flush(&mut list, out);
    }
}

/// Returns the bytes that a separate encoding of the run costs.
fn cost((first, last): (u64, u64)) -> u64 {
    RANGE_COST.min((last - first).saturating_add(1).saturating_mul(8))
}

fn flush(list: &mut Vec<u64>, out: &mut Vec<u8>) {
    if !list.is_empty() {
        out.put_u8(LIST);
        out.nested(|out| list.drain(..).for_each(|serial| out.put_u64(serial)));
    }
}

/// Writes a bitmap; `runs` are within [`MAX_BITS`] from `offset`.
fn write_bitmap(offset: u64, runs: &[(u64, u64)], out: &mut Vec<u8>) {
    let bits = runs.last().map_or(0, |last| last.1 - offset) as usize + 1;
    let mut bytes = vec![0u8; bits.div_ceil(8)];
    let len = bytes.len();
    for serial in runs.iter().flat_map(|(first, last)| *first..=*last) {
        let bit = (serial - offset) as usize;
        if let Some(byte) = bytes.get_mut(len - 1 - bit / 8) {
            *byte |= 1 << (bit % 8);
        }
    }
    out.put_u8(BITMAP);
    out.nested(|out| {
        out.put_u64(offset);
        out.put_mpint(&bytes);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn touching_runs_are_merged() {
        let mut serials = Serials::default();
        for (first, last) in [(5, 5), (7, 9), (6, 6), (20, 30), (25, 40), (1, 3), (u64::MAX, u64::MAX)] {
            serials.insert(first, last);
        }
        assert_eq!(serials.iter().collect::<Vec<_>>(), [(1, 3), (5, 9), (20, 40), (u64::MAX, u64::MAX)]);
        serials.insert(2, u64::MAX - 1);
        assert_eq!(serials.iter().collect::<Vec<_>>(), [(1, u64::MAX)]);
    }

    #[test]
    fn cheapest_encoding_is_chosen() {
        let kinds = |runs: &[(u64, u64)]| {
            let mut serials = Serials::default();
            runs.iter().for_each(|(first, last)| serials.insert(*first, *last));
            let mut out = Vec::new();
            serials.write(&mut out);
            let mut reader = Reader::new(&out);
            let mut kinds = Vec::new();
            while !reader.is_empty() {
                kinds.push(reader.u8().unwrap());
                reader.string().unwrap();
            }
            kinds
        };
        assert_eq!(kinds(&[(1, 1), (1000, 1000), (1 << 40, 1 << 40)]), [LIST]);
        assert_eq!(kinds(&[(1, u64::MAX)]), [RANGE]);
        assert_eq!(kinds(&[(1, 1), (3, 3), (5, 5), (7, 7)]), [BITMAP]);
        assert_eq!(kinds(&[(1, 1), (3, 3), (5, 5), (7, 7), (1 << 30, 1 << 31)]), [BITMAP, RANGE]);
    }

    proptest! {
        #[test]
        fn serials_match_a_plain_set(
            runs in proptest::collection::vec((1u64..400, 0u64..30), 0..40),
            probes in proptest::collection::vec(0u64..500, 20),
        ) {
            let mut serials = Serials::default();
            let mut plain = BTreeSet::new();
            for (first, len) in runs {
                serials.insert(first, first + len);
                plain.extend(first..=first + len);
            }
            for probe in probes {
                prop_assert_eq!(serials.contains(probe), plain.contains(&probe));
            }
            let mut end = None;
            for (first, last) in serials.iter() {
                prop_assert!(first <= last && end.is_none_or(|end| end + 1 < first));
                end = Some(last);
            }
        }
    }
}
