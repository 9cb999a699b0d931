//! Comparing what two files of one size hold: by the server's digests where it has them, else by reading them.

use crate::end::{Done, FaultKind, Op, Outcome, fault_of};
use crate::engine::Engine;
use crate::sync::Compare;
use crate::table::Key;
use crate::task::File;
use crate::task::state::State;
use crate::token::{FileStep, Side, Token};
use crate::wording::Deed;

impl Engine {
    /// Compares both files whole, then copies or leaves the item.
    pub(super) fn compare_contents(&mut self, key: Key) {
        let Some(Compare { item, .. }) = self.sync.compares.remove(key) else { return };
        let (source, target) = (item.source.clone(), item.target.clone());
        let id = self.progress.new_file_id();
        // Not a file to copy; if it is one after all, it gets another id.
        self.progress.not_files += 1;
        let size = item.info.size.unwrap_or(0);
        let mut file = File::new(id, item, self.progress.now);
        (file.state, file.requests.size, file.outstanding) = (State::Comparing(None), size, 2);
        let key = self.tasks.files.insert(file);
        for (side, path) in [(Side::Source, source), (Side::Target, target)] {
            self.ends.start(side, Op::OpenRead(&path), Token::File(key, FileStep::Contents(side)));
        }
    }

    /// One end is open, or not.
    pub(in crate::engine) fn contents_opened(&mut self, key: Key, side: Side, outcome: Outcome) {
        let digests = self.ends.can_digest();
        let Some(file) = self.tasks.files.get_mut(key) else { return };
        match (side, outcome) {
            (Side::Source, Ok(Done::Opened(handle, _))) => file.handles.source = Some(handle),
            (Side::Target, Ok(Done::Opened(handle, _))) => file.handles.target = Some(handle),
            (Side::Target, Err(fault)) if fault.kind != FaultKind::Lost => {}
            (_, outcome) => self.file_failed(key, Deed::OpenSource, &fault_of(outcome)),
        }
        let Some(file) =
            self.tasks.files.get(key).filter(|file| file.outstanding == 0 && !file.faults.failed)
        else {
            return;
        };
        if file.handles.target.is_none() {
            // What cannot be read is replaced.
            return self.contents_compared(key, false);
        }
        let end = file.requests.size;
        self.compare(key, end, true, digests);
    }

    pub(in crate::engine) fn contents_compared(&mut self, key: Key, same: bool) {
        let Some(file) = self.tasks.files.remove(key) else { return };
        for (side, handle) in [(Side::Source, file.handles.source), (Side::Target, file.handles.target)] {
            if let Some(handle) = handle {
                self.ends.start(side, Op::Close(handle), Token::Nothing);
            }
        }
        let key = self.sync.compares.insert(Compare::new(file.item));
        if same { self.same_contents(key) } else { self.copy_compared(key) }
    }
}
