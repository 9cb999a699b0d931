//! How much may be asked for or sent now, and counting it.

use std::time::{Duration, Instant};

use crate::channels::spread::{Spread, stops_to_reopen};
use crate::engine::Engine;
use crate::table::Key;
use crate::token::{FileStep, Side, Token};

/// What is asked for first of a file whose size says nothing.
const FIRST_OF_UNSIZED: u64 = 4096;

impl Engine {
    pub(in crate::engine) fn room_in_flight(&self) -> bool {
        self.flow.has_room(self.ends.servers())
            && !stops_to_reopen(self.channels.reopening, &self.tasks, &self.ends)
    }

    /// Takes in the round-trip time that the kernel has measured for the connection.
    pub fn expect_round_trip(&mut self, took: Duration) {
        self.flow.expect_round_trip(took);
    }

    /// Bytes of small files that are worth having in flight.
    pub(in crate::engine) fn worth_in_flight(&self) -> u64 {
        self.flow.worth_in_flight(self.progress.bytes_found, self.ends.channels_up())
    }

    /// Bytes of one request to the end `side`.
    pub(in crate::engine) fn request_bytes(&self, side: Side) -> u64 {
        self.flow.request_bytes(self.ends.request_bytes(side))
    }

    /// Files that may be open now.
    pub(in crate::engine) fn most_open(&self) -> usize {
        let worth = self.flow.worth_open(self.progress.ids(), self.ends.channels_up());
        self.flow.max_open(self.ends.fewest_handles()).min(worth)
    }

    /// Returns true when channel number `channel` may have more requests on its way, so that all have
    /// something to do.
    pub(in crate::engine) fn has_share(&mut self, channel: usize, chunk: u64) -> bool {
        let share = self.flow.share(chunk, self.ends.servers());
        self.ends.requests_on(channel).is_some_and(|(awaited, _)| (awaited as u64) < share)
    }

    /// What a question about a file has taken that was asked of the end `side` then.
    pub(in crate::engine) fn note_round_trip(&mut self, side: Side, asked: Instant) {
        if self.ends.get(side).is_none() {
            // An end that is here says nothing about the path.
            return;
        }
        let took = self.progress.now.saturating_duration_since(asked);
        self.flow.round_trip(took);
        self.channels.round_trip(took);
    }

    /// Large files on several channels.
    pub(in crate::engine) const fn spread(&mut self) -> Spread<'_> {
        let Self { tasks, ends, channels, .. } = self;
        Spread { tasks, ends, reopening: &mut channels.reopening }
    }

    /// Passes over a hole that the next request would be about.
    pub(in crate::engine) fn pass_hole(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        let passed = file.skip_hole();
        if passed > 0 {
            self.flow.no_longer_ahead(&mut file.queued.ahead, passed);
            self.leftovers.note_progress(file);
        }
    }

    /// Counts a request for `len` bytes of the file at its cursor.
    pub(in crate::engine) fn requested(&mut self, key: Key, len: u64) {
        self.flow.request(len);
        if let Some(file) = self.tasks.files.get_mut(key) {
            if file.requests.next == 0 {
                file.started = self.progress.now;
            }
            file.requests.next += len;
            self.flow.no_longer_ahead(&mut file.queued.ahead, len);
        }
    }

    /// The next READ of a file that has something left to be asked for, on channel number `channel`.
    pub(in crate::engine) fn request_next(&mut self, key: Key, channel: usize, chunk: u64) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        let (offset, len, new) = match file.requests.again.pop() {
            Some((offset, len)) => (offset, len, 0),
            None => {
                let left = match file.requests.to_eof {
                    // Most files that are said to be empty are.
                    true if file.requests.full_reads == 0 => FIRST_OF_UNSIZED,
                    true => chunk,
                    false => file.requestable(chunk),
                };
                let len = left.min(chunk);
                (file.requests.next, len as u32, len)
            }
        };
        file.requests.reads += 1;
        let remote = self.ends.on_channel(Side::Source, channel);
        if let (Some(handle), Some(remote)) = (file.handles.on_channel(Side::Source, channel), remote) {
            let step = FileStep::Read { offset, len };
            remote.read(handle, offset, len, Token::File(key, step));
        }
        if new > 0 {
            self.requested(key, new);
        } else {
            self.flow.request_again(len.into());
        }
    }

    pub(in crate::engine) fn expect_size(&mut self, key: Key, size: u64) {
        if let Some(file) = self.tasks.files.get_mut(key) {
            self.flow.expect(&mut file.queued.ahead, size);
            file.requests.size = size;
        }
    }
}
