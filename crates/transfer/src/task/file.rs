//! What is known of one file on its way.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use lh_sftp::RunningSum;

use crate::end::{Change, Fault, Handle};
use crate::item::Item;
use crate::task::check::Check;
use crate::task::content::Content;
use crate::task::extras::Extras;
use crate::task::holes::Holes;
use crate::task::place::Place;
use crate::task::proof::Proof;
use crate::task::source_after::SourceAfter;
use crate::task::stripes::{Plain, SPAN, Stripe};
use crate::token::Side;

/// How far a file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Being looked at and opened.
    Opening,
    /// Both ends are open.
    Copying,
    /// Attributes and CLOSE are on their way.
    Closing,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) id: u64,
    pub(crate) item: Item,
    pub(crate) phase: Phase,
    pub(crate) source: Option<Handle>,
    pub(crate) target: Option<Handle>,
    /// Size of the target when it was opened, where that is known (local); `None` also for what has no size.
    pub(crate) old_size: Option<u64>,
    /// Bytes to copy: the source's size when it was opened.
    pub(crate) size: u64,
    /// The size says nothing (0, as files in /proc have it, or unknown): read to the end.
    pub(crate) to_eof: bool,
    /// READs that came back full; allows more of them in flight when reading to the end.
    pub(crate) full_reads: u32,
    /// Where the next new request starts.
    pub(crate) requested: u64,
    /// What short answers left out.
    pub(crate) again: Vec<(u64, u32)>,
    /// No new requests are to come.
    pub(crate) all_requested: bool,
    pub(crate) reads: u32,
    pub(crate) writes: u32,
    /// Answers awaited other than data.
    pub(crate) outstanding: u32,
    /// Bytes that were there before: the copy is resumed behind them.
    pub(crate) kept: u64,
    /// Bytes the target has taken.
    pub(crate) confirmed: u64,
    /// All bytes before this have been taken; `islands` behind it, from start to end.
    pub(crate) prefix: u64,
    pub(crate) islands: BTreeMap<u64, u64>,
    /// WRITEs of this file that are half sent: the source must stay open.
    pub(crate) mid_write: u32,
    /// Pieces of its data that threads are reading or writing now: both ends must stay open.
    pub(crate) work_out: u32,
    /// Bytes of the source end here, whatever was sent behind them.
    pub(crate) real_end: u64,
    /// Relay: what has come and is not written, and where writing goes on.
    pub(crate) held: BTreeMap<u64, Vec<Bytes>>,
    pub(crate) write_at: u64,
    /// Where its data and its holes are.
    pub(crate) holes: Holes,
    /// Over what passes of it, for [`crate::Options::sums`].
    pub(crate) content: Content,
    /// Size and sum of what was copied, once the file is closed.
    pub(crate) copied: (u64, Option<Vec<u8>>),
    /// What is to be kept besides.
    pub(crate) extras: Extras,
    /// It is compared before it is known whether to copy it.
    pub(crate) comparing: bool,
    /// Other names of it wait for its copy.
    pub(crate) leads: bool,
    pub(crate) in_sending: bool,
    pub(crate) in_writing: bool,
    pub(crate) failed: bool,
    /// A handle of it was another file's, too: nothing more goes through it.
    pub(crate) tainted: bool,
    /// It is to be copied again from the start for that, without a word.
    pub(crate) undone: bool,
    /// The server left a longer tail: it is to be copied again into an empty file.
    pub(crate) too_long: bool,
    pub(crate) repaired: bool,
    /// What was set when it was closed.
    pub(crate) change: Change,
    /// Why attributes could not be set, and which.
    pub(crate) refused: Option<(Fault, Change)>,
    /// What is told of a copy that has its place but not all of its attributes.
    pub(crate) flaw: Option<String>,
    /// It could not be opened for reading and writing: only for writing, then.
    pub(crate) write_only: bool,
    /// Reading it back.
    pub(crate) proof: Proof,
    /// How often parts of it were asked for again because the server had dropped them, and the last time that counts.
    pub(crate) tries: u8,
    pub(crate) tried_in: u32,
    /// Counted in `Flow::ahead`.
    pub(crate) ahead: u64,
    pub(crate) started: Instant,
    pub(crate) plain: Plain,
    /// By number of the additional channel, less one; empty while there is none.
    pub(crate) stripes: Vec<Stripe>,
    /// Whether the source changed while it was read.
    pub(crate) source_after: SourceAfter,
    /// Under which name the file grows.
    pub(crate) place: Place,
    /// The comparison of what is there already, while it goes on.
    pub(crate) check: Option<Check>,
    /// Over what was copied, while both ends sum up.
    pub(crate) sum: Option<RunningSum>,
    /// What the server has summed up on handles that are closed.
    pub(crate) their_sum: RunningSum,
    /// It was to be summed up, and a part of that is lost.
    pub(crate) sum_lost: bool,
}

impl File {
    pub(crate) fn new(id: u64, item: Item, now: Instant) -> Self {
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
            work_out: 0,
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
    pub(crate) fn lose_sum(&mut self) {
        self.sum_lost |= self.sum.take().is_some();
    }

    /// The name that the bytes are under now.
    pub(crate) fn written_path(&self) -> &[u8] {
        self.place.growing().unwrap_or(&self.item.target)
    }

    /// `kept` bytes of the target are right already: copying begins behind them.
    pub(crate) fn resume_at(&mut self, kept: u64) {
        self.kept = kept;
        self.requested = kept;
        self.prefix = kept;
        self.write_at = kept;
    }

    /// Where the next WRITE begins, and how much may be behind that: first what has to be sent again. `None`: nothing is left.
    pub(crate) fn next_write(&self, chunk: u64) -> Option<(u64, u64)> {
        if let Some(&(offset, len)) = self.again.last().filter(|_| !self.failed) {
            return Some((offset, len.into()));
        }
        let left = if self.to_eof { chunk } else { self.requestable(chunk) };
        (!self.failed && !self.all_requested && left > 0).then_some((self.requested, left))
    }

    /// `len` bytes at `offset` have been sent. True when that was not for the first time.
    pub(crate) fn sent_again(&mut self, offset: u64, len: u32) -> bool {
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

    /// All that was asked for is on the target, or has been given to it.
    pub(crate) fn data_sent(&self) -> bool {
        self.all_requested
            && self.mid_write == 0
            && self.work_out == 0
            && self.again.is_empty()
            && self.reads == 0
            && self.held.is_empty()
    }

    /// How much of the target is known to be right.
    pub(crate) fn good_end(&self) -> u64 {
        self.prefix.min(self.real_end)
    }

    /// Nothing new is left to be asked for.
    pub(crate) const fn exhausted(&self) -> bool {
        !self.to_eof && self.requested >= self.size
    }

    /// Answers about data that are still to come.
    pub(crate) const fn data_in_flight(&self) -> u32 {
        self.reads + self.writes
    }

    /// True while this is a file whose progress may be shown.
    pub(crate) fn moving(&self) -> bool {
        self.phase != Phase::Opening && !self.failed
    }

    /// Bytes behind a gap: only a source that changes while it is read leaves them.
    pub(crate) fn has_gap(&self) -> bool {
        !self.islands.is_empty()
    }
}

impl File {
    /// Where the data end that begin at the cursor.
    pub(crate) fn data_end(&self) -> u64 {
        let left = |data: &&VecDeque<(u64, u64)>| data.iter().position(|&(_, to)| to > self.requested);
        match self.holes.data.as_ref().and_then(|data| data.get(left(&data)?)) {
            // In a hole that has to be sent.
            Some(&(from, _)) if self.requested < from => from.min(self.size),
            Some(&(_, to)) => to.min(self.size),
            None => self.size,
        }
    }

    /// Passes over a hole at the cursor; says how long it was.
    pub(crate) fn skip_hole(&mut self) -> u64 {
        let (at, size) = (self.requested, self.size);
        let Some(data) = &mut self.holes.data else { return 0 };
        while data.front().is_some_and(|&(_, to)| to <= at) {
            data.pop_front();
        }
        let next = data.front().map_or(size, |&(from, _)| from.min(size));
        if next <= at || at < self.holes.blank_from {
            return 0;
        }
        self.holes.left_out = true;
        self.confirm(at, next - at);
        self.requested = next;
        self.holes.passed.insert(at, next);
        self.content.add_hole(at, next);
        self.write_behind_holes();
        next - at
    }

    /// Relay: where writing has come to a hole it goes on behind it.
    pub(crate) fn write_behind_holes(&mut self) {
        while let Some(end) = self.holes.passed.remove(&self.write_at) {
            self.write_at = end;
        }
    }
}

impl File {
    /// The handle on channel `lane`, of the end that has several.
    pub(crate) fn handle_on(&self, side: Side, lane: usize) -> Option<&Handle> {
        match lane.checked_sub(1) {
            None if side == Side::Source => self.source.as_ref(),
            None => self.target.as_ref(),
            Some(at) => match self.stripes.get(at)? {
                Stripe::Open(handle) => Some(handle),
                Stripe::Unknown | Stripe::Without => None,
            },
        }
    }

    /// Where requests have to stop for now.
    pub(crate) fn request_end(&self, chunk: u64) -> u64 {
        if self.stripes.is_empty() || self.to_eof || self.place.growing().is_some() {
            return self.size;
        }
        let last = self.size.saturating_sub(chunk);
        let end = if self.prefix < last { last } else { self.size };
        end.min(self.prefix.saturating_add(SPAN)).max(self.requested)
    }

    /// Bytes that the next request may be about: up to where requests have to stop, or the data end.
    pub(crate) fn requestable(&self, chunk: u64) -> u64 {
        self.request_end(chunk).min(self.data_end()).saturating_sub(self.requested)
    }

    /// Waits for confirmations and not for room.
    pub(crate) fn holds_back(&self, chunk: u64) -> bool {
        let end = self.request_end(chunk);
        !self.failed && self.requested >= end && end < self.size
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
