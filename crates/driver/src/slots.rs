//! Table of the handlers of channels.

use std::collections::HashMap;

use lh_connection::ChannelId;

use crate::ids::HandlerId;
use crate::share::{MOST_PER_READ, SHARE_PER_TURN};

/// A handler and the driver's state for it.
pub(crate) struct Slot<H: ?Sized> {
    pub(crate) id: HandlerId,
    pub(crate) channel: ChannelId,
    /// The channel exists, and `channel` still names it.
    pub(crate) open: bool,
    /// `None` while the handler is being called.
    pub(crate) handler: Option<Box<H>>,
    /// The handler waits for `ChannelHandler::on_writable`, called as soon as there is budget.
    pub(crate) wants_write: bool,
    /// The handler has received events since the last end of a batch.
    pub(crate) in_batch: bool,
    /// Bytes left of this turn's share.
    pub(crate) share: usize,
    /// Bytes sent and received since the last observation of [`Mix`](crate::mix::Mix).
    pub(crate) moved: usize,
}

impl<H: ?Sized> Slot<H> {
    /// True when the handler of an open channel waits for budget.
    pub(crate) const fn waits_for_budget(&self) -> bool {
        self.open && self.wants_write
    }
}

/// The handlers, by the index of their slot and by their channel. A handler outlives its channel while it
/// still passes data on, so free slots are reused only after [`remove`](Self::remove).
pub(crate) struct Slots<H: ?Sized> {
    slots: Vec<Option<Slot<H>>>,
    free: Vec<usize>,
    by_channel: HashMap<ChannelId, usize>,
}

impl<H: ?Sized> Slots<H> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), by_channel: HashMap::new() }
    }

    /// Installs the handler of `channel` and returns its slot.
    pub(crate) fn insert(&mut self, id: HandlerId, channel: ChannelId, handler: Box<H>) -> usize {
        let slot = Slot {
            id,
            channel,
            open: true,
            handler: Some(handler),
            wants_write: false,
            in_batch: false,
            share: SHARE_PER_TURN,
            moved: 0,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(slot);
        self.by_channel.insert(channel, index);
        index
    }

    /// Drops the handler in a slot.
    pub(crate) fn remove(&mut self, index: usize) {
        if self.slots.get_mut(index).is_some_and(|slot| slot.take().is_some()) {
            self.free.push(index);
        }
    }

    /// Slot of an open channel.
    pub(crate) fn of(&self, channel: ChannelId) -> Option<usize> {
        self.by_channel.get(&channel).copied()
    }

    /// Notes that the channel of a slot is closed. Its number may be reused from now on.
    pub(crate) fn close(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index).and_then(Option::as_mut) {
            slot.open = false;
            slot.wants_write = false;
            self.by_channel.remove(&slot.channel);
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Slot<H>> {
        self.slots.get(index)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Slot<H>> {
        self.slots.get_mut(index)?.as_mut()
    }

    /// Number of slots, free ones included: every index is less than this.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Number of handlers, including those of closed channels that still pass data on.
    pub(crate) fn handlers(&self) -> usize {
        self.iter().count()
    }

    /// The used slots with their indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Slot<H>)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.as_ref()?)))
    }

    /// Takes what the channels have sent and received since the last call, bytes each.
    pub(crate) fn take_moved(&mut self) -> impl Iterator<Item = usize> {
        self.slots.iter_mut().flatten().map(|slot| std::mem::take(&mut slot.moved))
    }

    /// Starts a new turn: renews every channel's share. Shares are smaller while several channels have much
    /// to send, so that they alternate more often.
    pub(crate) fn share_out(&mut self) {
        let several = self.iter().filter(|(_, slot)| slot.waits_for_budget()).nth(1).is_some();
        let share = if several { MOST_PER_READ } else { SHARE_PER_TURN };
        for slot in self.slots.iter_mut().flatten() {
            slot.share = share;
        }
    }
}
