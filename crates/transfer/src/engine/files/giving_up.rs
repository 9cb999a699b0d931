//! Takes a file out of the table, and gives back what it holds.

use crate::end::Op;
use crate::engine::schedule::Scheduler;
use crate::item::Item;
use crate::table::Key;
use crate::task::File;
use crate::token::{Side, Token};

impl Scheduler<'_> {
    pub(in crate::engine) fn forget_file(&mut self, key: Key) {
        if let Some(file) = self.parts.tasks.remove(key) {
            self.drop_file(file);
        }
    }

    /// Gives back what a file that was taken out still holds.
    pub(in crate::engine) fn drop_file(&mut self, mut file: File) {
        self.parts.flow.ahead.expect(&mut file.queued.ahead, 0);
        for (side, handle) in [(Side::Source, file.handles.source), (Side::Target, file.handles.target)] {
            if let Some(handle) = handle {
                self.parts.ends.start(side, Op::Close(handle), Token::Nothing);
            }
        }
        self.child_finished(file.item.parent);
    }

    /// A copy that turned out wrong is taken out, to be made once more: returns what is to be copied.
    pub(in crate::engine) fn take_again(&mut self, key: Key) -> Option<Item> {
        let item =
            self.parts.tasks.files.get(key)?.copied_again().filter(|_| !self.parts.report.is_over())?;
        if let Some(parent) = item.parent.and_then(|parent| self.parts.tree.dirs.get_mut(parent)) {
            // The one that ends now is counted out.
            parent.count_in();
        }
        self.forget_file(key);
        Some(item)
    }
}
