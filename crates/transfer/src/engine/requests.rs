//! How much may be asked for or sent now, and counting it.

use std::time::{Duration, Instant};

use crate::channels::spread::{Spread, stops_to_reopen};
use crate::checks::Checks;
use crate::data_requests::DataRequests;
use crate::endings::Endings;
use crate::engine::Engine;
use crate::in_place::Targets;
use crate::place::PartFiles;
use crate::table::Key;
use crate::token::Side;

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

    /// The names of the files on their way.
    pub(in crate::engine) const fn part_files(&mut self) -> PartFiles<'_> {
        PartFiles {
            plan: &self.plan,
            options: &self.options,
            tasks: &mut self.tasks,
            ends: &mut self.ends,
            dirs: &self.tree.dirs,
            leftovers: &mut self.leftovers,
            backups: &mut self.sync.backups,
            report: &mut self.report,
            now: self.progress.now,
        }
    }

    /// The targets of the files on their way.
    pub(in crate::engine) const fn targets(&mut self) -> Targets<'_> {
        Targets {
            direction: self.plan.direction,
            options: &self.options,
            tasks: &mut self.tasks,
            ends: &mut self.ends,
            dirs: &self.tree.dirs,
            report: &mut self.report,
            now: self.progress.now,
        }
    }

    /// The files on their way, as far as they end.
    pub(in crate::engine) const fn endings(&mut self) -> Endings<'_> {
        Endings {
            direction: self.plan.direction,
            options: &self.options,
            tasks: &mut self.tasks,
            ends: &mut self.ends,
            flow: &mut self.flow,
        }
    }

    /// The comparisons of the files on their way.
    pub(in crate::engine) const fn checks(&mut self) -> Checks<'_> {
        Checks {
            direction: self.plan.direction,
            options: &self.options,
            tasks: &mut self.tasks,
            ends: &mut self.ends,
            report: &mut self.report,
            most_requests: self.flow.most_requests(),
        }
    }

    /// READs and WRITEs of file data.
    pub(in crate::engine) const fn data_requests(&mut self) -> DataRequests<'_> {
        let Self { tasks, ends, flow, progress, leftovers, .. } = self;
        DataRequests { tasks, ends, flow, progress, leftovers }
    }

    pub(in crate::engine) fn expect_size(&mut self, key: Key, size: u64) {
        if let Some(file) = self.tasks.files.get_mut(key) {
            self.flow.expect(&mut file.queued.ahead, size);
            file.requests.size = size;
        }
    }
}
