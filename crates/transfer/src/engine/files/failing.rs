//! A file that fails, or is given up.

use crate::end::{Fault, FaultKind, Op};
use crate::engine::Engine;
use crate::item::Item;
use crate::table::Key;
use crate::task::File;
use crate::token::{Side, Token};
use crate::wording;
use crate::wording::FailedStep;

impl Engine {
    /// Ends a file with a message. Only the first of a file's failures is reported.
    pub(in crate::engine) fn file_failed(&mut self, key: Key, step: FailedStep, fault: &Fault) {
        let Some(file) = self.tasks.files.get(key) else { return };
        let of_source =
            matches!(step, FailedStep::StatSource | FailedStep::OpenSource | FailedStep::ReadSource);
        let path = if of_source { &file.item.source } else { &file.item.target };
        let text = wording::failed(self.plan.direction, step, path, fault);
        if fault.kind == FaultKind::Lost && !file.state.has_begun() {
            if let Some(file) = self.tasks.files.get_mut(key) {
                file.faults.failed = true;
            }
            return;
        }
        self.file_failed_with(key, text);
    }

    pub(in crate::engine) fn file_failed_with(&mut self, key: Key, text: String) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        if !std::mem::replace(&mut file.faults.failed, true) {
            file.requests.again.clear();
            let item = file.item.clone();
            if !self.tree.reported_by_dir(item.parent, &text) {
                self.report.fail(text);
            }
            self.report.missed(self.tree.path_of(&item));
        }
    }

    pub(in crate::engine) fn forget_file(&mut self, key: Key) {
        if let Some(file) = self.tasks.remove(key) {
            self.drop_file(file);
        }
    }

    /// Gives back what a file that was taken out still holds.
    pub(in crate::engine) fn drop_file(&mut self, mut file: File) {
        self.flow.expect(&mut file.queued.ahead, 0);
        for (side, handle) in [(Side::Source, file.handles.source), (Side::Target, file.handles.target)] {
            if let Some(handle) = handle {
                self.ends.start(side, Op::Close(handle), Token::Nothing);
            }
        }
        self.child_finished(file.item.parent);
    }

    /// A copy that turned out wrong is taken out, to be made once more: returns what is to be copied.
    pub(in crate::engine) fn take_again(&mut self, key: Key) -> Option<Item> {
        let item = self.tasks.files.get(key)?.copied_again().filter(|_| !self.report.is_over())?;
        if let Some(parent) = item.parent.and_then(|parent| self.tree.dirs.get_mut(parent)) {
            // The one that ends now is counted out.
            parent.count_in();
        }
        self.forget_file(key);
        Some(item)
    }

    /// The target does not hold what the source does. The first time it is thrown away and copied again.
    pub(in crate::engine) fn found_wrong(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.place.corrupt = true;
        if file.item.again && file.state.closed().is_some_and(|closed| closed.changed.is_some()) {
            let fault =
                Fault::other("the source does not stay as it is while it is copied; nothing was verified");
            return self.file_failed(key, FailedStep::VerifyTarget, &fault);
        }
        if file.item.again {
            let why = match file.place.growing() {
                Some(_) => "what was written is not what was sent, twice; nothing was put in its place",
                None => "what was written is not what was sent, twice",
            };
            let fault = Fault::other(why);
            return self.file_failed(key, FailedStep::VerifyTarget, &fault);
        }
        file.faults.failed = true;
        file.requests.again.clear();
        let path = crate::display_name(&file.item.target);
        self.report
            .skip(format!("verify \"{path}\": what was written is not what was sent; copying it again"));
    }
}
