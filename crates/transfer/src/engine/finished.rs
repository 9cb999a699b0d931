//! Detects the end of the copy, and decides what the journal keeps.

use crate::engine::Engine;

impl Engine {
    /// Returns true when nothing is left to do: every file is closed or has failed. The answers to CLOSEs of
    /// source files may still be missing; they say nothing.
    pub fn is_finished(&self) -> bool {
        self.prepare.finished()
            && self.tree.is_empty()
            && self.tasks.files.len() == 0
            && self.batches.is_empty()
            && self.links.names.is_empty()
            && self.sync.is_finished()
            && self.leftovers.removing.len() == 0
            && self.ends.all_answered()
    }

    /// This process ends here: the journal learns how far each file has come.
    pub(crate) fn leave(&mut self) {
        for key in self.tasks.files.keys() {
            if let (Some(journal), Some(file)) = (&mut self.leftovers.journal, self.tasks.files.get_mut(key))
                && let Some(part) = file.place.growing().filter(|_| file.state.is_examined())
            {
                journal.advance(part, file.taken.good_end());
            }
        }
        self.keep_journal();
    }

    /// Writes the journal, or removes it when the copy has come to its end and nothing failed.
    pub(in crate::engine) fn keep_journal(&mut self) {
        if self.leftovers.journal.is_none() {
            return;
        }
        let ended = self.is_finished() && !self.report.is_over();
        if let Some(mut journal) = self.leftovers.journal.take() {
            if ended && self.report.summary.failures > 0 {
                journal.keep_failed(self.report.summary.files + self.report.summary.directories > 0);
            } else if ended {
                journal.remove();
            } else {
                journal.flush();
                self.leftovers.journal = Some(journal);
            }
        }
    }
}
