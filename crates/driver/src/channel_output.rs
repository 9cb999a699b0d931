//! Sending data on a channel, within the peer's window and the channel's share.

use lh_wire::{Output, Reservation, Reserved, Slices};

use crate::handler::ChannelCx;

impl ChannelCx<'_> {
    /// Sends as much of `data` as the peer's window allows now and returns that length. For small data (typed
    /// text, replies): it ignores the limits of the output queue. Producers of bulk must ask
    /// [`budget`](Self::budget) first. After a short send,
    /// [`ChannelHandler::on_writable`](crate::ChannelHandler::on_writable) is called when there is budget
    /// again.
    pub fn send(&mut self, data: &[u8]) -> usize {
        self.send_as(None, data)
    }

    /// Like [`send`](Self::send), for extended data; `kind` 1 is stderr.
    pub fn send_ext(&mut self, kind: u32, data: &[u8]) -> usize {
        self.send_as(Some(kind), data)
    }

    fn send_as(&mut self, ext: Option<u32>, data: &[u8]) -> usize {
        let Some(id) = self.channel() else { return 0 };
        let (connection, sink) = self.core.speak();
        let sent = connection.send(id, ext, data, sink);
        if sent < data.len() {
            self.want_writable();
        }
        self.spend(sent);
        sent
    }

    /// Bytes of bulk that may be produced now: the smallest of the peer's window, the space in the output
    /// queue and this channel's share of the turn. It is 0 during a key exchange. After a 0,
    /// [`ChannelHandler::on_writable`](crate::ChannelHandler::on_writable) is called when there is budget
    /// again.
    pub fn budget(&mut self) -> usize {
        let budget = self.core.budget(self.slot);
        if budget == 0 {
            self.want_writable();
        }
        budget
    }

    /// Remaining window of the peer, bytes; 0 for a closed channel.
    pub fn window(&self) -> usize {
        self.channel().map_or(0, |id| self.core.connection.send_budget(id))
    }

    /// Reserves packets for up to `want` bytes in the send buffer, to write the data straight into them, for
    /// example with `readv`. `ext` is `Some(1)` for stderr. At most 64 packets, and never more than the
    /// peer's window; `None` when no data may be sent. Take `want` from [`budget`](Self::budget).
    pub fn reserve(&mut self, ext: Option<u32>, want: usize) -> Option<Reservation<'_>> {
        let id = self.channel()?;
        let (connection, sink) = self.core.speak();
        match connection.reserve(id, ext, want, sink) {
            0 => None,
            total => Some(Reservation::new(self, total)),
        }
    }

    fn spend(&mut self, sent: usize) {
        if let Some(slot) = self.core.slots.get_mut(self.slot) {
            slot.share = slot.share.saturating_sub(sent);
            slot.moved += sent;
        }
    }

    /// Requests a call of [`ChannelHandler::on_writable`](crate::ChannelHandler::on_writable) as soon as
    /// there is budget, in the next turn at the earliest.
    pub fn want_writable(&mut self) {
        if let Some(slot) = self.core.slots.get_mut(self.slot) {
            slot.wants_write = slot.open;
        }
    }
}

/// The main stream of the channel.
impl Output for ChannelCx<'_> {
    fn budget(&mut self) -> usize {
        ChannelCx::budget(self)
    }

    fn window(&mut self) -> usize {
        ChannelCx::window(self)
    }

    fn send(&mut self, data: &[u8]) -> usize {
        ChannelCx::send(self, data)
    }

    fn reserve(&mut self, want: usize) -> Option<Reservation<'_>> {
        ChannelCx::reserve(self, None, want)
    }

    fn peer_is_full(&mut self) -> bool {
        self.is_open() && ChannelCx::window(self) == 0
    }
}

impl Reserved for ChannelCx<'_> {
    fn slices(&mut self, _: usize) -> Slices<'_> {
        let (connection, sink) = self.core.speak();
        connection.slices(sink)
    }

    fn commit(&mut self, _: usize, used: usize) -> usize {
        let (connection, sink) = self.core.speak();
        let sent = connection.commit(used, sink);
        self.spend(sent);
        sent
    }
}
