//! Decides how much may be requested or sent now, and counts it.

use std::time::{Duration, Instant};

use crate::batch::small_files::SmallFiles;
use crate::channels::spread::Spread;
use crate::checks::Checks;
use crate::data_requests::{DataRequests, has_room};
use crate::endings::Endings;
use crate::engine::Engine;
use crate::in_place::Targets;
use crate::place::PartFiles;
use crate::preserving::Preserving;
use crate::token::Side;

impl Engine {
    pub(in crate::engine) fn room_in_flight(&self) -> bool {
        has_room(&self.flow, self.channels.reopening, &self.tasks, &self.ends)
    }

    /// Takes in the round-trip time that the kernel has measured for the connection.
    pub fn expect_round_trip(&mut self, took: Duration) {
        self.flow.expect_round_trip(took);
    }

    /// Records the round trip of a query about a file, sent to the end `side` at `asked`.
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

    /// The files and directories on their way, as far as their attributes are to be kept.
    pub(in crate::engine) const fn preserving(&mut self) -> Preserving<'_> {
        Preserving {
            options: &self.options,
            tasks: &mut self.tasks,
            tree: &mut self.tree,
            ends: &mut self.ends,
            report: &mut self.report,
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
        DataRequests {
            direction: self.plan.direction,
            options: &self.options,
            tasks: &mut self.tasks,
            ends: &mut self.ends,
            flow: &mut self.flow,
            progress: &mut self.progress,
            leftovers: &mut self.leftovers,
            reopening: self.channels.reopening,
        }
    }

    /// The files on their way, as far as they may go in batches.
    pub(in crate::engine) const fn small_files(&mut self) -> SmallFiles<'_> {
        SmallFiles {
            direction: self.plan.direction,
            options: &self.options,
            batches: &mut self.batches,
            tasks: &mut self.tasks,
            ends: &mut self.ends,
            flow: &mut self.flow,
            progress: &mut self.progress,
            leftovers: &self.leftovers,
            report: &mut self.report,
            ordered: self.tree.waiting.presumed > 0,
        }
    }
}
