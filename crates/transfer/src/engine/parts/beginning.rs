//! Sources of the command line, by [`Prepare`], and files until their data move.

use crate::channels::homes;
use crate::end::{Op, Outcome};
use crate::engine::parts::Parts;
use crate::item::Item;
use crate::plan::Prepare;
use crate::plan::preparing::PrepareContext;
use crate::sync::extraneous::same_top;
use crate::table::Key;
use crate::task::File;
use crate::task::state::{Copying, State};
use crate::token::{FileStep, PrepareStep, Side, Token};

impl Parts {
    /// Called whenever something may have become possible.
    pub(in crate::engine) fn prepare_more(&mut self) {
        let found = self.prepare_with(Prepare::advance);
        self.add_sources(found);
    }

    pub(in crate::engine) fn prepared(&mut self, step: PrepareStep, outcome: Outcome) {
        let found = self.prepare_with(|prepare, with| prepare.answered(with, step, outcome));
        self.add_sources(found);
    }

    /// Runs a step of the preparation with what it works with.
    pub(in crate::engine) fn prepare_with<T>(
        &mut self,
        step: impl FnOnce(&mut Prepare, &mut PrepareContext<'_>) -> T,
    ) -> T {
        let mut with = PrepareContext {
            plan: &mut self.plan,
            options: &self.options,
            ends: &mut self.ends,
            report: &mut self.report,
            journal: self.leftovers.journal.as_mut(),
        };
        step(&mut self.prepare, &mut with)
    }

    /// Adds what is named on the command line to what is copied.
    pub(in crate::engine) fn add_sources(&mut self, found: Vec<Item>) {
        for item in found {
            if self.options.deletes() && !self.sync.deletions.add_top(&item.target) {
                self.report.fail(same_top(&item.target));
                self.report.blame(&item.source);
            }
            self.tree.top.push_back(item);
        }
    }

    pub(in crate::engine) fn may_begin_item(&mut self) -> bool {
        let worth = self.flow.worth_open(self.progress.ids(), self.ends.channels_up());
        self.tasks.files.len() < self.flow.max_open(self.ends.fewest_handles()).min(worth)
            && self.flow.ahead.may_open()
            && self.sync.comparisons.has_room()
            && self.small_files().have_room()
            && self.report.has_room()
    }

    /// So many small files are still to be sent that more SFTP servers than one are worth it.
    pub(in crate::engine) fn wants_channels_for_small_files(&self) -> bool {
        let limit = self.options.limits.channels;
        self.progress.ids() >= homes::BEGUN
            && (!self.channels.shared || limit.is_some())
            && self.ends.channels.count() + 1 < limit.unwrap_or(homes::CHANNELS)
            && self.ends.may_share_small_files()
            && !self.flow.rate.is_set()
            && !self.options.dry_run
            && self.tree.waiting_files() >= homes::WAITING
    }

    /// Both ends are open: the data may follow.
    pub(in crate::engine) fn begin_data(&mut self, key: Key) {
        if !self.tasks.ask_for_holes(key, &mut self.ends, self.options.placing.resume) {
            self.begin_copying(key);
        }
    }

    /// All is known that is asked before the data move.
    pub(in crate::engine) fn begin_copying(&mut self, key: Key) {
        self.checks().begin_sum(key);
        let sums = self.options.reporting.sums;
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        match sums {
            Some(algorithm) if file.taken.kept == 0 => file.sums.content.begin(algorithm),
            _ => file.sums.content.lose(),
        }
        file.state = State::Copying(Copying::default());
        file.started = self.progress.now;
        file.queued.sending = true;
        self.tasks.sending.push_back(key);
    }

    /// Opens both files to compare them whole.
    pub(in crate::engine) fn compare_contents(&mut self, item: Item) {
        let (source, target) = (item.source.clone(), item.target.clone());
        let id = self.progress.new_file_id();
        // Not counted as a file. If it is copied after all, it gets another id.
        self.progress.not_files += 1;
        let size = item.info.size.unwrap_or(0);
        let mut file = File::new(id, item, self.progress.now);
        (file.state, file.requests.size, file.outstanding) = (State::Comparing(None), size, 2);
        let key = self.tasks.files.insert(file);
        self.ends.begin_on_first(key);
        for (side, path) in [(Side::Source, source), (Side::Target, target)] {
            self.ends.start(side, Op::OpenRead(&path), Token::File(key, FileStep::Contents(side)));
        }
    }
}
