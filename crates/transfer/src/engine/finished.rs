//! Access to the scheduler, the end of the copy, and what the journal keeps when this process ends.

use crate::engine::Engine;
use crate::engine::schedule::Scheduler;

impl Engine {
    /// What follows from what has come or ended.
    pub(super) const fn scheduler(&mut self) -> Scheduler<'_> {
        Scheduler { parts: &mut self.parts }
    }

    /// Returns true when nothing is left to do: every file is closed or has failed. The answers to CLOSEs of
    /// source files may still be missing; they say nothing.
    pub fn is_finished(&self) -> bool {
        self.parts.is_finished()
    }

    /// This process ends here: the journal learns how far each file has come.
    pub(crate) fn leave(&mut self) {
        for key in self.parts.tasks.files.keys() {
            if let (Some(journal), Some(file)) =
                (&mut self.parts.leftovers.journal, self.parts.tasks.files.get_mut(key))
                && let Some(part) = file.place.growing().filter(|_| file.state.is_examined())
            {
                journal.advance(part, file.taken.good_end());
            }
        }
        self.parts.keep_journal();
    }
}
