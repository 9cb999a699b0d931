//! State of one file during its copy.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;

use crate::flow::Flow;
use crate::item::Item;
use crate::task::handles::{Handles, LEAST_LEFT, SPAN};
use crate::task::holes::Holes;
use crate::task::place::Place;
use crate::task::requests::Requests;
use crate::task::state::State;
use crate::task::sums::Sums;
use crate::task::taken::ConfirmedRanges;

/// One file that is copied.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) id: u64,
    pub(crate) item: Item,
    pub(crate) started: Instant,
    pub(crate) state: State,
    /// Answers awaited other than data.
    pub(crate) outstanding: u32,
    pub(crate) handles: Handles,
    pub(crate) requests: Requests,
    pub(crate) taken: ConfirmedRanges,
    pub(crate) relay: Relay,
    /// Data ranges and holes.
    pub(crate) holes: Holes,
    pub(crate) sums: Sums,
    /// The name under which the file grows.
    pub(crate) place: Place,
    pub(crate) queued: Queued,
    pub(crate) faults: Faults,
}

/// The queue in which a file waits for its turn.
#[derive(Debug, Default)]
pub(crate) struct Queued {
    pub(crate) sending: bool,
    pub(crate) writing: bool,
    /// Bytes of it that are counted in `Flow::ahead`.
    pub(crate) ahead: u64,
}

/// Faults of a copy.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// It is not completed.
    pub(crate) failed: bool,
    /// A handle of it was another file's, too: nothing more goes through it.
    pub(crate) tainted: bool,
    /// It is copied again from the start for that, without a message.
    pub(crate) undone: bool,
    /// The target denied a WRITE.
    pub(crate) denied: bool,
    /// The server left a longer tail: it is copied again into an empty file.
    pub(crate) too_long: bool,
}

/// Relay: what has come and is not written.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    pub(crate) held: BTreeMap<u64, Vec<Bytes>>,
    /// Offset of the next WRITE.
    pub(crate) write_at: u64,
}

impl File {
    /// Returns true if the rest of the file is large enough for several channels.
    pub(crate) fn is_big(&self) -> bool {
        let left = self.requests.size.saturating_sub(self.requests.next);
        matches!(self.state, State::Copying(_))
            && !self.faults.failed
            && !self.requests.to_eof
            && self.handles.home() == 0
            && left >= LEAST_LEFT
    }

    pub(crate) fn new(id: u64, item: Item, now: Instant) -> Self {
        Self {
            id,
            item,
            started: now,
            state: State::default(),
            outstanding: 0,
            handles: Handles::default(),
            requests: Requests::default(),
            taken: ConfirmedRanges::default(),
            relay: Relay::default(),
            holes: Holes::default(),
            sums: Sums::default(),
            place: Place::default(),
            queued: Queued::default(),
            faults: Faults::default(),
        }
    }

    /// It has `size` bytes, which are to be asked for or sent.
    pub(crate) fn expect_size(&mut self, size: u64, flow: &mut Flow) {
        flow.ahead.expect(&mut self.queued.ahead, size);
        self.requests.size = size;
    }

    /// The name that the bytes are under now.
    pub(crate) fn written_path(&self) -> &[u8] {
        self.place.growing().unwrap_or(&self.item.target)
    }

    /// `kept` bytes of the target are right already: copying begins behind them.
    pub(crate) fn resume_at(&mut self, kept: u64) {
        self.taken.kept = kept;
        self.requests.next = kept;
        self.taken.prefix = kept;
        self.relay.write_at = kept;
    }

    /// Returns offset and maximum length of the next WRITE; ranges to be repeated come first. `None`: nothing
    /// is left.
    pub(crate) fn next_write(&self, chunk: u64) -> Option<(u64, u64)> {
        if let Some(&(offset, len)) = self.requests.again.last().filter(|_| !self.faults.failed) {
            return Some((offset, len.into()));
        }
        let left = if self.requests.to_eof { chunk } else { self.requestable(chunk) };
        (!self.faults.failed && !self.requests.complete && left > 0).then_some((self.requests.next, left))
    }

    /// All requested data are on the target, or have been passed to it.
    pub(crate) fn data_sent(&self) -> bool {
        self.requests.all_moved() && self.relay.held.is_empty()
    }

    /// Returns true while this is a file whose progress may be shown.
    pub(crate) fn moving(&self) -> bool {
        self.state.has_begun() && !self.faults.failed
    }
}

impl File {
    /// Returns the end of the data range at the cursor.
    pub(crate) fn data_end(&self) -> u64 {
        let left = |data: &&VecDeque<(u64, u64)>| data.iter().position(|&(_, to)| to > self.requests.next);
        match self.holes.data.as_ref().and_then(|data| data.get(left(&data)?)) {
            // In a hole that has to be sent.
            Some(&(from, _)) if self.requests.next < from => from.min(self.requests.size),
            Some(&(_, to)) => to.min(self.requests.size),
            None => self.requests.size,
        }
    }

    /// Passes over a hole at the cursor; says how long it was.
    pub(crate) fn skip_hole(&mut self) -> u64 {
        let (at, size) = (self.requests.next, self.requests.size);
        let Some(data) = &mut self.holes.data else { return 0 };
        while data.front().is_some_and(|&(_, to)| to <= at) {
            data.pop_front();
        }
        let next = data.front().map_or(size, |&(from, _)| from.min(size));
        if next <= at || at < self.holes.blank_from {
            return 0;
        }
        self.holes.left_out = true;
        self.taken.confirm(at, next - at);
        self.requests.next = next;
        self.holes.passed.insert(at, next);
        self.sums.content.add_hole(at, next);
        self.write_behind_holes();
        next - at
    }

    /// Relay: where writing has come to a hole it goes on behind it.
    pub(crate) fn write_behind_holes(&mut self) {
        while let Some(end) = self.holes.passed.remove(&self.relay.write_at) {
            self.relay.write_at = end;
        }
    }
}

impl File {
    /// Returns the offset up to which data may be requested now.
    pub(crate) fn request_end(&self, chunk: u64) -> u64 {
        if self.handles.on_channels.is_empty() || self.requests.to_eof || self.place.growing().is_some() {
            return self.requests.size;
        }
        let last = self.requests.size.saturating_sub(chunk);
        let end = if self.taken.prefix < last { last } else { self.requests.size };
        end.min(self.taken.prefix.saturating_add(SPAN)).max(self.requests.next)
    }

    /// Bytes that the next request may be about: up to where requests have to stop, or the data end.
    pub(crate) fn requestable(&self, chunk: u64) -> u64 {
        self.request_end(chunk).min(self.data_end()).saturating_sub(self.requests.next)
    }

    /// Waits for confirmations, and not for space in the window.
    pub(crate) fn holds_back(&self, chunk: u64) -> bool {
        let end = self.request_end(chunk);
        !self.faults.failed && self.requests.next >= end && end < self.requests.size
    }
}
