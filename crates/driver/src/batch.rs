//! The end of a batch of events, and channels and sources that wait for space in the output queue.

use crate::handler::Core;
use crate::slots::Slot;

impl Core {
    /// Drops the handler of a closed channel once it has finished and the batch is over.
    pub(crate) fn reap(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        if !slot.open && !slot.in_batch && slot.handler.as_ref().is_some_and(|handler| handler.finished()) {
            self.gone.push_back((slot.channel, slot.id));
            self.slots.remove(index);
        }
    }

    /// Ends a batch: all events of one read have been delivered.
    pub(crate) fn end_batch(&mut self) {
        for index in std::mem::take(&mut self.batch) {
            if let Some(slot) = self.slots.get_mut(index) {
                slot.in_batch = false;
            }
            self.call(index, |handler, cx| handler.on_batch_end(cx));
            self.reap(index);
        }
    }

    /// True when a channel has closed in this batch and the control has not been notified yet.
    pub(crate) fn has_closed_in_batch(&self) -> bool {
        let is_closed = |&index: &usize| self.slots.get(index).is_some_and(|slot| !slot.open);
        !self.gone.is_empty() || self.batch.iter().any(is_closed)
    }

    /// True when a source waits for queue space.
    pub(crate) fn sources_wait(&self) -> bool {
        self.sources.iter().any(|(_, source)| source.as_ref().is_some_and(|source| source.waits_for_room()))
    }

    /// True when a channel or source that waits for budget could send now.
    pub(crate) fn can_write_now(&mut self) -> bool {
        (0..self.slots.len())
            .any(|index| self.slots.get(index).is_some_and(Slot::waits_for_budget) && self.budget(index) > 0)
            || (self.sources_wait() && self.room() > 0)
    }
}
