//! Files that fail, and files that are copied again because what was written is worthless.

use crate::Event;
use crate::channels::reopening::Remains;
use crate::end::{Fault, FaultKind};
use crate::engine::parts::Parts;
use crate::in_place::{EMPTIES, REMOVES};
use crate::names::display_name;
use crate::table::Key;
use crate::task::File;
use crate::task::handles::OnChannel;
use crate::token::Side;
use crate::wording;
use crate::wording::FailedStep;

/// Limit of repeated copies of one file. One suffices unless channels are opened meanwhile.
const MOST_REDONE: u8 = 5;

impl Parts {
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

    /// Copies a file from its start again, because its target is worthless for the reason `why`.
    pub(in crate::engine) fn copy_again(&mut self, key: Key, why: &str) {
        let Some(file) = self.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        if file.item.redone >= MOST_REDONE {
            let path = display_name(&file.item.target);
            let text = format!("\"{path}\" is not copied: {why}, again and again");
            return self.file_failed_with(key, text);
        }
        file.faults.failed = true;
        file.faults.undone = true;
        file.requests.again.clear();
    }

    /// The target refuses a WRITE. Servers in front of object stores (rclone's without a cache) take a file
    /// from its start to its end alone: there a part file is not continued, and one channel has to do.
    pub(in crate::engine) fn write_refused(&mut self, key: Key, fault: &Fault) {
        let foreign = self.ends.is_foreign(Side::Target);
        let may_be_order = foreign && fault.may_be_the_way() && !fault.is_forbidden();
        let out_of_order = |file: &File| {
            let several = file.handles.on_channels.iter().any(|one| matches!(one, OnChannel::Open(_)));
            // The previous content of the final name is not emptied on a guess.
            let may_empty = file.place.part.is_some() || file.taken.kept == 0;
            let continued = file.place.continued || file.taken.kept > 0;
            may_empty && file.item.redone == 0 && (continued || several)
        };
        if !may_be_order || !self.tasks.files.get(key).is_some_and(out_of_order) {
            return self.file_failed(key, FailedStep::WriteTarget, fault);
        }
        self.channels.reopening.give_up();
        if self.tasks.files.get(key).is_some_and(|file| !file.faults.failed) {
            let text = format!(
                "the server refuses to write in the middle of a file ({}): from its start",
                fault.text
            );
            self.report.event(Event::Notice { text });
        }
        self.copy_again(key, &fault.text);
    }

    /// Opens a target again and empties it, because it cannot be continued for the reason `why`.
    pub(in crate::engine) fn begin_emptied(&mut self, key: Key, why: &str) {
        if let Some(file) = self.tasks.files.get(key) {
            let path = display_name(&file.item.target);
            let text = format!("\"{path}\" cannot be continued, {why}: all of it is copied");
            self.report.skip(text);
        }
        self.copy_again(key, why);
    }

    /// Copies a file again over one channel where its OPEN on a second one was found to have taken its data.
    pub(in crate::engine) fn reopened(&mut self, key: Key, gone: Option<Remains>) {
        if let Some(gone) = gone {
            let why = if gone == Remains::Removed { REMOVES } else { EMPTIES };
            self.report.event(Event::Notice { text: format!("{why}: its data go over one channel") });
            self.copy_again(key, why);
        }
    }
}
