//! State of a running connection, on which the contexts of handlers, sources and the control act.

use std::any::Any;
use std::collections::VecDeque;
use std::time::Instant;

use lh_connection::{ChannelId, Connection};
use lh_wire::PacketSink;

use crate::Link;
use crate::hold::Hold;
use crate::ids::{HandlerId, SourceId};
use crate::mix::Mix;
use crate::resumption::Resumption;
use crate::slots::Slots;

/// Bytes that may be queued while there is no link: enough to read `~.` from a terminal.
const AWAY_ROOM: usize = 16 << 10;

/// All state of a driver except the control. `H` and `S` are the traits of its handlers and sources, which
/// this module does not use.
pub(crate) struct Core<H: ?Sized, S: ?Sized> {
    pub(crate) link: Link,
    pub(crate) connection: Connection,
    pub(crate) now: Instant,
    /// The handlers of channels.
    pub(crate) slots: Slots<H>,
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
            slots: Slots::new(),
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

    /// Installs the handler of `channel` and returns its slot.
    pub(crate) fn attach(&mut self, channel: ChannelId, handler: Box<H>) -> usize {
        let id = HandlerId(self.next_id());
        self.slots.insert(id, channel, handler)
    }

    /// Measures the path, and what the channels send and receive. Called once a turn.
    pub(crate) fn measure(&mut self) {
        if self.mix.is_due(self.now) {
            self.mix.observe(self.now, self.slots.take_moved());
            let mixed = self.mix.is_mixed(self.now);
            let read = self.link.transport_ref().bytes_in();
            let round_trip = self.connection.round_trip();
            let unread = || rustix::io::ioctl_fionread(self.link.stream().read_fd()).unwrap_or(0);
            let limit = self.hold.evaluate(self.now, read, mixed, round_trip, unread);
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
        let Some(slot) = self.slots.get(index).filter(|slot| slot.open) else {
            return 0;
        };
        self.connection.send_budget(slot.channel).min(room).min(slot.share)
    }
}
