//! Small files by the hundred: which files go in batches, and when a batch goes.

use crate::Direction;
use crate::batch::putting::Put;
use crate::batch::{Batches, Small, may_get, may_put};
use crate::ends::QUEUE_LIMIT;
use crate::engine::Engine;
use crate::flow::FIRST_REQUESTS;
use crate::item::Item;
use crate::remote::Remote;
use crate::table::Key;
use crate::wording::Deed;

impl Engine {
    /// Returns true when more may be put into batches now.
    pub(super) fn batch_room(&mut self) -> bool {
        !self.batches.are_offered(self.plan.direction, &self.options, &self.ends)
            || (self.flow.has_room_for_batch(self.batches.bytes(), self.worth_in_flight())
                && self.batches.under_way() < FIRST_REQUESTS
                && self.ends.queue_of(self.ends.idlest_channel()) <= QUEUE_LIMIT)
    }

    /// Upload: takes the file that was opened, if it is one for a batch. False when it goes the ordinary way.
    pub(super) fn put_in_batch(&mut self, key: Key) -> bool {
        if self.plan.direction != Direction::Upload
            || !self.batches.are_offered(self.plan.direction, &self.options, &self.ends)
        {
            return false;
        }
        let Some(file) = self.tasks.files.get(key) else { return false };
        if !may_put(file, &self.options)
            || self.leftovers.may_be_done(&file.item)
            || self.leftovers.may_have_part(&file.item)
        {
            return false;
        }
        if !self.batches.has_space(&file.item.target) {
            self.send_batch();
        }
        let Some(file) = self.tasks.files.get_mut(key) else { return false };
        let full = self.ends.target.as_ref().is_some_and(Remote::full);
        match self.batches.put(file, &self.options, full) {
            Put::Joined { size, sum } => {
                let Some(mut file) = self.tasks.files.remove(key) else { return false };
                self.flow.expect(&mut file.queued.ahead, 0);
                self.add_to_batch(Small { id: file.id, item: file.item, size, sum });
            }
            Put::Failed(fault) => self.file_failed(key, Deed::ReadSource, &fault),
            Put::Alone => return false,
            Put::Changed(now) => {
                file.item.info = now;
                file.requests.to_eof = now.size.unwrap_or(0) == 0;
                self.expect_size(key, now.size.unwrap_or(0));
                return false;
            }
        }
        true
    }

    /// Download: takes a file whose attributes were listed, if it is one for a batch; gives it back
    /// otherwise.
    pub(super) fn get_in_batch(&mut self, item: Item) -> Option<Item> {
        let Some(size) = may_get(&item, &self.options) else { return Some(item) };
        if self.plan.direction != Direction::Download
            || !self.batches.are_offered(self.plan.direction, &self.options, &self.ends)
            || self.leftovers.may_be_done(&item)
            || self.leftovers.may_have_part(&item)
        {
            return Some(item);
        }
        self.progress.bytes_found += size;
        let full = self.ends.source.as_ref().is_some_and(Remote::full);
        let len = Batches::answer_len(size, &self.options, full);
        if !self.batches.has_answer_space(len) {
            self.send_batch();
        }
        let small = Small { id: self.progress.new_file_id(), item, size, sum: None };
        self.batches.get(&small, len);
        self.add_to_batch(small);
        None
    }

    fn add_to_batch(&mut self, small: Small) {
        if self.batches.add(small, self.worth_in_flight()) {
            self.send_batch();
        }
    }

    /// Sends what was put together.
    pub(super) fn send_batch(&mut self) {
        // What goes into a directory that is being made goes behind the order to make it.
        let ordered = self.tree.waiting.presumed > 0;
        let sent = self.batches.send(&mut self.ends, &self.options, ordered, self.progress.now);
        if let Some(bytes) = sent {
            self.flow.request(bytes);
        }
    }

    /// Drops what has not been sent; returns how many files that were.
    pub(super) fn drop_batch(&mut self) -> usize {
        let files = self.batches.drop_unsent();
        let dropped = files.len();
        for small in files {
            self.child_finished(small.item.parent);
        }
        dropped
    }
}
