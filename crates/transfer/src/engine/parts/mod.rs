//! The parts that own what is known of a copy, and what concerns several of them without anything following
//! from it.
//!
//! Nothing here begins another operation because one has ended: that is for the scheduler, above.
//!
//! | module | what |
//! |---|---|
//! | [`beginning`] | sources, and files until their data move |
//! | [`dirs`] | directories: what is presumed, compared, and found in their place |
//! | [`failing`] | files that fail, or are copied again |
//! | [`waiting`] | has the copy come to its end, and what it waits for |

mod beginning;
mod dirs;
mod failing;
mod waiting;

use std::time::Instant;

use crate::batch::Batches;
use crate::batch::small_files::SmallFiles;
use crate::channels::Channels;
use crate::channels::spread::Spread;
use crate::checks::Checks;
use crate::data_requests::{DataRequests, has_room};
use crate::endings::Endings;
use crate::ends::Ends;
use crate::flow::{Bounds, Flow};
use crate::in_place::Targets;
use crate::journal::Journal;
use crate::leftovers::Leftovers;
use crate::links::Links;
use crate::links::new_names::Kept;
use crate::place::PartFiles;
use crate::plan::Prepare;
use crate::preserving::Preserving;
use crate::progress::Progress;
use crate::report::Reporter;
use crate::sync::SyncState;
use crate::task::queues::Tasks;
use crate::token::Side;
use crate::tree::walk::Tree;
use crate::turn::{Order, OrderRules};
use crate::{Direction, Options, Plan, local};

/// See the module documentation.
#[derive(Debug)]
pub(in crate::engine) struct Parts {
    pub(in crate::engine) plan: Plan,
    pub(in crate::engine) options: Options,
    pub(in crate::engine) ends: Ends,
    pub(in crate::engine) prepare: Prepare,
    pub(in crate::engine) tasks: Tasks,
    pub(in crate::engine) tree: Tree,
    pub(in crate::engine) flow: Flow,
    pub(in crate::engine) batches: Batches,
    pub(in crate::engine) channels: Channels,
    pub(in crate::engine) links: Links,
    pub(in crate::engine) sync: SyncState,
    pub(in crate::engine) report: Reporter,
    pub(in crate::engine) progress: Progress,
    pub(in crate::engine) leftovers: Leftovers,
}

impl Parts {
    /// The parts of a copy that will carry out `plan`.
    pub(in crate::engine) fn new(plan: Plan, options: Options, now: Instant) -> Self {
        let bounds = Bounds {
            limits: options.limits,
            relay: plan.direction == Direction::Relay,
            descriptors: local::max_open(),
        };
        let kept = Kept { times: options.preserve, ids: options.keep.owner && options.keep.group };
        let (placing, sums) = (&options.placing, options.reporting.sums);
        let path = placing.journal_in_use().filter(|_| !options.dry_run);
        let mut journal =
            path.and_then(|path| Journal::open(path, plan.direction != Direction::Download, sums));
        if let Some(journal) = &mut journal {
            journal.note_command(&placing.journal_command);
        }
        let mut ends = Ends::new(plan.direction);
        if options.tells_links() {
            ends.tell_links();
        }
        let mut report = Reporter::new(&options);
        if plan.direction == Direction::Upload {
            report.watch_sources(&plan.sources);
        }
        Self {
            ends,
            prepare: Prepare::new(&plan),
            tasks: Tasks::default(),
            tree: match options.tree_sync {
                Some(_) => {
                    let rules = OrderRules { holds_files: options.dry_run, keeps_links: options.keep.links };
                    Tree::new(options.select.expected()).in_order(Order::new(rules))
                }
                None => Tree::new(options.select.expected()),
            },
            flow: Flow::new(bounds, now),
            batches: Batches::new(),
            channels: Channels::default(),
            links: Links::new(kept, options.limits.shared_files),
            sync: SyncState::new(&options),
            leftovers: Leftovers::new(journal),
            report,
            progress: Progress::new(now),
            plan,
            options,
        }
    }

    pub(in crate::engine) fn room_in_flight(&self) -> bool {
        has_room(&self.flow, self.channels.reopening, &self.tasks, &self.ends)
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
            flow: &mut self.flow,
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
