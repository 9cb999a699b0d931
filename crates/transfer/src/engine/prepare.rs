//! Resolves the command line's paths by [`Prepare`], and starts the copies of the sources that it returns.

use crate::end::Outcome;
use crate::engine::Engine;
use crate::item::Item;
use crate::plan::Prepare;
use crate::plan::preparing::PrepareContext;
use crate::sync::extraneous::same_top;
use crate::token::PrepareStep;

impl Engine {
    /// Called whenever something may have become possible.
    pub(super) fn prepare_more(&mut self) {
        let found = self.prepare_with(Prepare::advance);
        self.add_sources(found);
    }

    pub(super) fn prepared(&mut self, step: PrepareStep, outcome: Outcome) {
        let found = self.prepare_with(|prepare, with| prepare.answered(with, step, outcome));
        self.add_sources(found);
    }

    /// Runs a step of the preparation with what it works with.
    pub(super) fn prepare_with<T>(
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
    fn add_sources(&mut self, found: Vec<Item>) {
        for item in found {
            if self.options.deletes() && !self.sync.deletions.add_top(&item.target) {
                self.report.fail(same_top(&item.target));
            }
            self.tree.top.push_back(item);
        }
    }
}
