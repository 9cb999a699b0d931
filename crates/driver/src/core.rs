//! State of a running connection, on which the contexts of handlers, sources and the control act.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use lh_connection::{ChannelId, Connection};
use lh_wire::PacketSink;

use crate::Link;
use crate::hold::Hold;
use crate::ids::{HandlerId, SourceId};
use crate::mix::Mix;
use crate::resumption::Resumption;
use crate::share::{MOST_PER_READ, SHARE_PER_TURN};

/// Bytes that may be queued while there is no link: enough to read `~.` from a terminal.
const AWAY_ROOM: usize = 16 << 10;

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
    /// Bytes sent and received since the last observation of [`Mix`].
    pub(crate) moved: usize,
}

/// All state of a driver except the control. `H` and `S` are the traits of its handlers and sources, which
/// this module does not use.
pub(crate) struct Core<H: ?Sized, S: ?Sized> {
    pub(crate) link: Link,
    pub(crate) connection: Connection,
    pub(crate) now: Instant,
    /// Handlers, indexed by slot. Free slots are reused.
    pub(crate) slots: Vec<Option<Slot<H>>>,
    pub(crate) free_slots: Vec<usize>,
    /// Slot of each open channel, by channel number.
    pub(crate) by_channel: HashMap<ChannelId, usize>,
    pub(crate) sources: Vec<(SourceId, Option<Box<S>>)>,
    pub(crate) removed_sources: Vec<SourceId>,
    next_id: u64,
    /// Notes from handlers to the control.
    pub(crate) notes: VecDeque<(HandlerId, ChannelId, Box<dyn Any>)>,
    /// Closed channels whose handlers have been dropped; the control has not been told yet.
    pub(crate) gone: VecDeque<(ChannelId, HandlerId)>,
    pub(crate) batch: Vec<usize>,
    /// Queued output exceeded the high-water mark and has not fallen to half of it.
    pub(crate) congested: bool,
    pub(crate) stop: Option<i32>,
    mix: Mix,
    hold: Hold,
    /// Completed key exchanges.
    pub(crate) rekeys: u64,
    /// Present where the connection can go on over another link.
    pub(crate) resumption: Option<Resumption>,
}

impl<H: ?Sized, S: ?Sized> Core<H, S> {
    pub(crate) fn new(link: Link, connection: Connection) -> Self {
        Self {
            link,
            connection,
            now: Instant::now(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            by_channel: HashMap::new(),
            sources: Vec::new(),
            removed_sources: Vec::new(),
            next_id: 0,
            notes: VecDeque::new(),
            gone: VecDeque::new(),
            batch: Vec::new(),
            congested: false,
            stop: None,
            mix: Mix::default(),
            hold: Hold::default(),
            rekeys: 0,
            resumption: None,
        }
    }

    /// The connection, and the sink that its messages go to.
    pub(crate) const fn speak(&mut self) -> (&mut Connection, &mut dyn PacketSink) {
        (&mut self.connection, self.link.transport())
    }

    pub(crate) const fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(crate) fn slot_of(&self, channel: ChannelId) -> Option<usize> {
        self.by_channel.get(&channel).copied()
    }

    /// Installs the handler of `channel` and returns its slot.
    pub(crate) fn attach(&mut self, channel: ChannelId, handler: Box<H>) -> usize {
        let id = HandlerId(self.next_id());
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
        let index = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(slot);
        self.by_channel.insert(channel, index);
        index
    }

    /// Starts a new turn: renews every channel's share. Shares are smaller while several channels have much
    /// to send, so that they alternate more often.
    pub(crate) fn share_out(&mut self) {
        let several =
            self.slots.iter().flatten().filter(|slot| slot.open && slot.wants_write).nth(1).is_some();
        let share = if several { MOST_PER_READ } else { SHARE_PER_TURN };
        for slot in self.slots.iter_mut().flatten() {
            slot.share = share;
        }
    }

    /// Measures the path, and what the channels send and receive. Called once a turn.
    pub(crate) fn measure(&mut self) {
        if self.mix.is_due(self.now) {
            let moved = self.slots.iter_mut().flatten().map(|slot| std::mem::take(&mut slot.moved));
            self.mix.observe(self.now, moved);
            let mixed = self.mix.is_mixed(self.now);
            let read = self.link.transport_ref().bytes_in();
            let round_trip = self.connection.round_trip();
            let unread = || rustix::io::ioctl_fionread(self.link.stream().read_fd()).unwrap_or(0);
            let limit = self.hold.look(self.now, read, mixed, round_trip, unread);
            self.connection.hold_windows(limit);
        }
        self.link.measure(self.now, self.mix.is_mixed(self.now));
    }

    /// Bytes that bulk producers may queue now.
    pub(crate) fn room(&mut self) -> usize {
        if self.link.is_lost() {
            return AWAY_ROOM.saturating_sub(self.link.transport_ref().held_bytes());
        }
        let queued = self.link.transport_ref().queued_bytes();
        // Hysteresis: producers stop at the high-water mark and resume at half of it.
        let high = self.link.high_water();
        self.congested = if self.congested { queued > high / 2 } else { queued >= high };
        if self.congested || !self.link.transport_ref().can_send_bulk() {
            return 0;
        }
        high - queued.min(high)
    }

    /// Bytes that the channel of this slot may produce now. The caller must note a 0 itself.
    pub(crate) fn budget(&mut self, index: usize) -> usize {
        let room = self.room();
        if room == 0 {
            return 0;
        }
        let Some(slot) = self.slots.get(index).and_then(Option::as_ref).filter(|slot| slot.open) else {
            return 0;
        };
        self.connection.send_budget(slot.channel).min(room).min(slot.share)
    }
}
