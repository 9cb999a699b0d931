//! The files that are being copied, and whose data move next.

use std::collections::VecDeque;

use crate::end::{Done, Info, Kind, Outcome};
use crate::names::base_name;
use crate::progress::Current;
use crate::table::{Key, Table};
use crate::task::File;
use crate::task::handles::Plain;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub(crate) files: Table<File>,
    /// Files whose data are not all requested, in the order in which they will be.
    pub(crate) sending: VecDeque<Key>,
    /// Relay: files with data that have come and are not written, in order of their first data.
    pub(crate) writing: VecDeque<Key>,
}

impl Tasks {
    /// The file whose data move: of several, the one that was found first.
    pub(crate) fn current(&self) -> Option<Current<'_>> {
        let file = self.files.values().filter(|file| file.moving()).min_by_key(|file| file.id)?;
        let done = file.taken.kept + file.taken.confirmed;
        Some(Current {
            id: file.id,
            name: base_name(&file.item.source),
            done,
            size: file.requests.size.max(done),
            kept: file.taken.kept,
        })
    }

    /// Bytes of all files that were there before.
    pub(crate) fn kept(&self) -> u64 {
        self.files.values().map(|file| file.taken.kept).sum()
    }

    /// Nothing is left to be asked for of the file at this place of the queue.
    pub(crate) fn drop_sending(&mut self, at: usize) {
        if let Some(file) = self.sending.remove(at).and_then(|key| self.files.get_mut(key)) {
            file.queued.sending = false;
        }
    }

    /// The file is asked for before all others.
    pub(crate) fn send_first(&mut self, key: Key) {
        if let Some(file) = self.files.get_mut(key)
            && !std::mem::replace(&mut file.queued.sending, true)
        {
            self.sending.push_front(key);
        }
    }

    /// Removes a file, also from the queues that it is in.
    pub(crate) fn remove(&mut self, key: Key) -> Option<File> {
        let file = self.files.remove(key)?;
        if file.queued.sending {
            self.sending.retain(|&other| other != key);
        }
        if file.queued.writing {
            self.writing.retain(|&other| other != key);
        }
        Some(file)
    }

    /// Notes bytes that were asked for and have not come.
    pub(crate) fn ask_again(&mut self, key: Key, offset: u64, len: u32) {
        let Some(file) = self.files.get_mut(key).filter(|file| !file.faults.failed) else { return };
        file.requests.again.push((offset, len));
        if let Some(copying) = file.state.copying_mut() {
            copying.source_after.read_more();
        }
        self.send_first(key);
    }

    pub(crate) fn plain_answer(&mut self, key: Key, outcome: Outcome) {
        if let (Some(file), Ok(Done::Info(Info { kind: Kind::File, .. }))) =
            (self.files.get_mut(key), outcome)
        {
            file.handles.plain = Plain::Yes;
        }
    }

    /// Closes both ends of a file that is not copied after all, without a change to the target.
    pub(crate) fn leave_target_alone(&mut self, key: Key) {
        if let Some(file) = self.files.get_mut(key) {
            // A file of unknown length is not cut.
            file.handles.old_size = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use crate::item::Item;

    use super::*;

    #[test]
    fn a_removed_file_leaves_its_queues() {
        let mut tasks = Tasks::default();
        let mut begin = |id| {
            let key = tasks.files.insert(File::new(
                id,
                Item::top(Vec::new(), Vec::new(), Info::UNKNOWN),
                Instant::now(),
            ));
            tasks.send_first(key);
            tasks.send_first(key);
            key
        };
        let (one, two, three) = (begin(1), begin(2), begin(3));
        assert_eq!(tasks.sending, [three, two, one], "each is queued once");
        assert!(tasks.remove(two).is_some_and(|file| file.queued.sending));
        assert!(tasks.remove(two).is_none());
        tasks.drop_sending(1);
        assert_eq!(tasks.sending, [three]);
        assert!(tasks.files.get(one).is_some_and(|file| !file.queued.sending));
    }
}
