//! What is known of one file on its way.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use lh_sftp::RunningSum;

use crate::end::{Change, Fault, Handle};

use super::Side;
use super::check::{Check, CheckStep};
use super::content::Content;
use super::dirs::Item;
use super::extras::Extras;
use super::holes::Holes;
use super::lanes::{Plain, Stripe};
use super::place::{Place, PlaceStep};
use super::proof::Proof;
use super::source_after::SourceAfter;

/// Which question about a file an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileStep {
    Stat,
    /// How long the copy is that is to be resumed.
    TargetStat,
    /// It is a directory behind a symlink: which?
    RealPath,
    OpenSource,
    OpenTarget,
    /// Whether the target is a plain file, for [`super::lanes`].
    IsPlain,
    OpenStripe {
        lane: usize,
    },
    /// Of a source; that of a target says whether everything was written.
    CloseStripe,
    Read {
        offset: u64,
        len: u32,
    },
    Write {
        offset: u64,
        len: u32,
    },
    Attributes,
    /// The same by its path: the server does not take them on the handle.
    AttributesByPath,
    /// Nor so: perhaps the size is right.
    SizeCheck,
    /// What was there before may have been longer; `tried`: it was told to be cut once more.
    SizeAfter {
        tried: bool,
    },
    Cut,
    /// Opening an end to compare what it has: nothing is copied yet.
    Contents(Side),
    /// Opening an end to read it back.
    Proof(Side),
    Sync,
    /// Where its holes are.
    Ranges,
    CloseTarget,
    /// Cutting a file that was closed before its failure was known.
    Repair,
    /// What the source is like when it has been read.
    SourceAfter,
    /// What [`super::place`] and [`super::check`] ask.
    Place(PlaceStep),
    Check(CheckStep),
}

/// How far a file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Being looked at and opened.
    Opening,
    /// Both ends are open.
    Copying,
    /// Attributes and CLOSE are on their way.
    Closing,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct File {
    pub(super) id: u64,
    pub(super) item: Item,
    pub(super) phase: Phase,
    pub(super) source: Option<Handle>,
    pub(super) target: Option<Handle>,
    /// Size of the target when it was opened, where that is known (local); `None` also for what has no size.
    pub(super) old_size: Option<u64>,
    /// Bytes to copy: the source's size when it was opened.
    pub(super) size: u64,
    /// The size says nothing (0, as files in /proc have it, or unknown): read to the end.
    pub(super) to_eof: bool,
    /// READs that came back full; allows more of them in flight when reading to the end.
    pub(super) full_reads: u32,
    /// Where the next new request starts.
    pub(super) requested: u64,
    /// What short answers left out.
    pub(super) again: Vec<(u64, u32)>,
    /// No new requests are to come.
    pub(super) all_requested: bool,
    pub(super) reads: u32,
    pub(super) writes: u32,
    /// Answers awaited other than data.
    pub(super) outstanding: u32,
    /// Bytes that were there before: the copy is resumed behind them.
    pub(super) kept: u64,
    /// Bytes the target has taken.
    pub(super) confirmed: u64,
    /// All bytes before this have been taken; `islands` behind it, from start to end.
    pub(super) prefix: u64,
    islands: BTreeMap<u64, u64>,
    /// WRITEs of this file that are half sent: the source must stay open.
    pub(super) mid_write: u32,
    /// Bytes of the source end here, whatever was sent behind them.
    pub(super) real_end: u64,
    /// Relay: what has come and is not written, and where writing goes on.
    pub(super) held: BTreeMap<u64, Vec<Bytes>>,
    pub(super) write_at: u64,
    /// Where its data and its holes are.
    pub(super) holes: Holes,
    /// Over what passes of it, for [`crate::Options::sums`].
    pub(super) content: Content,
    /// Size and sum of what was copied, once the file is closed.
    pub(super) copied: (u64, Option<Vec<u8>>),
    /// What is to be kept besides.
    pub(super) extras: Extras,
    /// It is compared before it is known whether to copy it.
    pub(super) comparing: bool,
    /// Other names of it wait for its copy.
    pub(super) leads: bool,
    pub(super) in_sending: bool,
    pub(super) in_writing: bool,
    pub(super) failed: bool,
    /// A handle of it was another file's, too: nothing more goes through it.
    pub(super) tainted: bool,
    /// It is to be copied again from the start for that, without a word.
    pub(super) undone: bool,
    /// The server left a longer tail: it is to be copied again into an empty file.
    pub(super) too_long: bool,
    pub(super) repaired: bool,
    /// What was set when it was closed.
    pub(super) change: Change,
    /// Why attributes could not be set, and which.
    pub(super) refused: Option<(Fault, Change)>,
    /// What is told of a copy that has its place but not all of its attributes.
    pub(super) flaw: Option<String>,
    /// It could not be opened for reading and writing: only for writing, then.
    pub(super) write_only: bool,
    /// Reading it back.
    pub(super) proof: Proof,
    /// How often parts of it were asked for again because the server had dropped them, and the last time that counts.
    pub(super) tries: u8,
    pub(super) tried_in: u32,
    /// Counted in `Flow::ahead`.
    pub(super) ahead: u64,
    pub(super) started: Instant,
    pub(super) plain: Plain,
    /// By number of the additional channel, less one; empty while there is none.
    pub(super) stripes: Vec<Stripe>,
    /// Whether the source changed while it was read.
    pub(super) source_after: SourceAfter,
    /// Under which name the file grows.
    pub(super) place: Place,
    /// The comparison of what is there already, while it goes on.
    pub(super) check: Option<Check>,
    /// Over what was copied, while both ends sum up.
    pub(super) sum: Option<RunningSum>,
    /// What the server has summed up on handles that are closed.
    pub(super) their_sum: RunningSum,
    /// It was to be summed up, and a part of that is lost.
    pub(super) sum_lost: bool,
}

impl File {
    pub(super) fn new(id: u64, item: Item, now: Instant) -> Self {
        let leads = item.leads;
        Self {
            id,
            item,
            phase: Phase::Opening,
            source: None,
            target: None,
            old_size: None,
            size: 0,
            to_eof: false,
            full_reads: 0,
            requested: 0,
            again: Vec::new(),
            all_requested: false,
            reads: 0,
            writes: 0,
            outstanding: 0,
            kept: 0,
            confirmed: 0,
            prefix: 0,
            islands: BTreeMap::new(),
            mid_write: 0,
            real_end: u64::MAX,
            held: BTreeMap::new(),
            write_at: 0,
            holes: Holes::default(),
            content: Content::default(),
            copied: (0, None),
            extras: Extras::default(),
            comparing: false,
            leads,
            in_sending: false,
            in_writing: false,
            failed: false,
            tainted: false,
            undone: false,
            too_long: false,
            repaired: false,
            change: Change::default(),
            refused: None,
            flaw: None,
            write_only: false,
            proof: Proof::default(),
            tries: 0,
            tried_in: 0,
            ahead: 0,
            started: now,
            plain: Plain::default(),
            stripes: Vec::new(),
            source_after: SourceAfter::default(),
            place: Place::default(),
            check: None,
            sum: None,
            their_sum: RunningSum::default(),
            sum_lost: false,
        }
    }

    /// The two ends cannot be compared by what they have summed up.
    pub(super) fn lose_sum(&mut self) {
        self.sum_lost |= self.sum.take().is_some();
    }

    /// The name that the bytes are under now.
    pub(super) fn written_path(&self) -> &[u8] {
        self.place.growing().unwrap_or(&self.item.target)
    }

    /// `kept` bytes of the target are right already: copying begins behind them.
    pub(super) fn resume_at(&mut self, kept: u64) {
        self.kept = kept;
        self.requested = kept;
        self.prefix = kept;
        self.write_at = kept;
    }

    /// Where the next WRITE begins, and how much may be behind that: first what has to be sent again. `None`: nothing is left.
    pub(super) fn next_write(&self, chunk: u64) -> Option<(u64, u64)> {
        if let Some(&(offset, len)) = self.again.last().filter(|_| !self.failed) {
            return Some((offset, len.into()));
        }
        let left = if self.to_eof { chunk } else { self.requestable(chunk) };
        (!self.failed && !self.all_requested && left > 0).then_some((self.requested, left))
    }

    /// `len` bytes at `offset` have been sent. True when that was not for the first time.
    pub(super) fn sent_again(&mut self, offset: u64, len: u32) -> bool {
        let again = self.again.last().is_some_and(|&(at, _)| at == offset && offset < self.requested);
        if again
            && let Some((at, whole)) = self.again.pop()
            && let Some(rest @ 1..) = whole.checked_sub(len)
        {
            self.again.push((at + u64::from(len), rest));
        }
        again
    }

    /// Bytes from `offset` on have been taken by the target.
    pub(super) fn confirm(&mut self, offset: u64, len: u64) {
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

    /// All that was asked for is on the target, or has been given to it.
    pub(super) fn data_sent(&self) -> bool {
        self.all_requested
            && self.mid_write == 0
            && self.again.is_empty()
            && self.reads == 0
            && self.held.is_empty()
    }

    /// How much of the target is known to be right.
    pub(super) fn good_end(&self) -> u64 {
        self.prefix.min(self.real_end)
    }

    /// Nothing new is left to be asked for.
    pub(super) const fn exhausted(&self) -> bool {
        !self.to_eof && self.requested >= self.size
    }

    /// Answers about data that are still to come.
    pub(super) const fn data_in_flight(&self) -> u32 {
        self.reads + self.writes
    }

    /// True while this is a file whose progress may be shown.
    pub(super) fn moving(&self) -> bool {
        self.phase != Phase::Opening && !self.failed
    }

    /// Bytes behind a gap: only a source that changes while it is read leaves them.
    pub(super) fn has_gap(&self) -> bool {
        !self.islands.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::end::Info;

    proptest! {
        #[test]
        fn the_prefix_is_what_has_come_without_a_gap(
            order in Just((0..20_u64).collect::<Vec<_>>()).prop_shuffle(),
            stop in 0..20_usize,
        ) {
            let item = Item::top(Vec::new(), Vec::new(), Info::UNKNOWN);
            let mut file = File::new(0, item, Instant::now());
            for &block in &order[..stop] {
                file.confirm(block * 10, 10);
            }
            let done = &order[..stop];
            let expected = (0..20).find(|block| !done.contains(block)).unwrap_or(20) * 10;
            prop_assert_eq!(file.prefix, expected);
            prop_assert_eq!(file.confirmed, stop as u64 * 10);
            prop_assert_eq!(file.has_gap(), expected != stop as u64 * 10);
        }
    }
}
