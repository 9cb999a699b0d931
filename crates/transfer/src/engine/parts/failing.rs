//! Files that fail, and files that are copied again because what was written is worthless.

use crate::Event;
use crate::channels::reopening::Remains;
use crate::end::{Fault, FaultKind};
use crate::engine::parts::Parts;
use crate::in_place::{EMPTIES, REMOVES};
use crate::names::display_name;
use crate::table::Key;
use crate::target_facts::Overwriting;
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
            self.report.blame(&item.source);
            self.report.missed(self.tree.path_of(&item));
        }
    }

    /// The target does not hold what the source does. The first time it is thrown away and copied again.
    pub(in crate::engine) fn found_wrong(&mut self, key: Key) {
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.place.corrupt = true;
        if file.item.retry.was_wrong && file.state.closed().is_some_and(|closed| closed.changed.is_some()) {
            let fault =
                Fault::other("the source does not stay as it is while it is copied; nothing was verified");
            return self.file_failed(key, FailedStep::VerifyTarget, &fault);
        }
        if file.item.retry.was_wrong {
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
        if file.item.retry.redone >= MOST_REDONE {
            let path = display_name(&file.item.target);
            let text = format!("\"{path}\" is not copied: {why}, again and again");
            return self.file_failed_with(key, text);
        }
        file.faults.failed = true;
        file.faults.undone = true;
        file.requests.again.clear();
    }

    /// The target refuses a WRITE. Servers in front of object stores (rclone's without a cache) take a file
    /// from its start to its end alone: there a part file is not continued, and one channel has to do. Nor do
    /// they take anything of a file that OPEN has not emptied.
    pub(in crate::engine) fn write_refused(&mut self, key: Key, fault: &Fault) {
        // OPEN has said already that the file may be written.
        let denied = fault.is_denied();
        let foreign = self.ends.is_foreign(Side::Target);
        let may_be_order = foreign && fault.may_be_the_way() && (denied || !fault.is_forbidden());
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        file.faults.denied |= denied;
        let several = file.handles.on_channels.iter().any(|one| matches!(one, OnChannel::Open(_)));
        let continued = file.place.continued || file.taken.kept > 0;
        let takes_nothing = denied && file.taken.confirmed == 0;
        let redone = file.item.retry.redone > 0;
        // The previous content of the final name is not emptied on a guess, unless all of it is written anew.
        let may_empty = file.place.part.is_some() || file.taken.kept == 0;
        let in_order = continued || several;
        let to_emptied = takes_nothing && self.ends.facts.overwriting != Overwriting::Forbidden;
        if takes_nothing && redone && file.item.retry.denied {
            self.ends.facts.overwriting.note(false);
        }
        if !may_be_order || redone || !may_empty || !(in_order || to_emptied) {
            return self.file_failed(key, FailedStep::WriteTarget, fault);
        }
        let first = !file.faults.failed;
        self.channels.reopening.give_up();
        let what = if in_order {
            "in the middle of a file"
        } else {
            file.item.retry.denied = true;
            self.ends.facts.overwriting.doubt();
            "to a file that it has not emptied"
        };
        if first {
            let text = format!("the server refuses to write {what} ({}): from its start", fault.text);
            self.report.event(Event::Notice { text });
        }
        self.copy_again(key, &fault.text);
    }

    /// The target has taken a WRITE.
    pub(in crate::engine) fn write_taken(&mut self, key: Key) {
        let overwriting = &mut self.ends.facts.overwriting;
        let retry = self.tasks.files.get(key).map(|file| file.item.retry);
        if *overwriting == Overwriting::Doubted && retry.is_some_and(|retry| retry.denied && retry.redone > 0)
        {
            overwriting.note(true);
        }
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
