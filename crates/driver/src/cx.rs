//! What handlers and the control can do.

use std::any::Any;
use std::io::IoSliceMut;
use std::time::Instant;

use lh_connection::{ChannelId, ChannelOptions, Connection, HandedOver, OpenError};
use lh_transport::Transport;

use crate::core::Core;
use crate::handler::{ChannelEvent, ChannelHandler, HandlerId, Source, SourceId};

/// What a [`ChannelHandler`] can do. All of it on its own channel; once that is closed nothing has an effect.
pub struct ChannelCx<'a> {
    core: &'a mut Core,
    slot: usize,
    id: ChannelId,
    handler: HandlerId,
}

impl<'a> ChannelCx<'a> {
    pub(crate) const fn new(core: &'a mut Core, slot: usize, id: ChannelId, handler: HandlerId) -> Self {
        Self { core, slot, id, handler }
    }

    /// The channel's number, while it exists.
    fn channel(&self) -> Option<ChannelId> {
        self.core.slots.get(self.slot)?.as_ref().filter(|slot| slot.open).map(|slot| slot.channel)
    }

    /// True until [`ChannelEvent::Closed`] (or [`ChannelEvent::OpenFailed`]) has been delivered.
    pub fn is_open(&self) -> bool {
        self.channel().is_some()
    }

    /// The channel's number; another channel may have it after [`ChannelEvent::Closed`].
    pub const fn id(&self) -> ChannelId {
        self.id
    }

    /// The handler's own name, never used again.
    pub const fn handler_id(&self) -> HandlerId {
        self.handler
    }

    /// When this turn of the loop began.
    pub const fn now(&self) -> Instant {
        self.core.now
    }

    /// Sends now what the peer's window allows and returns how much that was. For small things (typed text,
    /// replies): it does not look at the output queue. Whoever produces bulk asks [`budget`](Self::budget) first.
    /// After a short send [`ChannelHandler::on_writable`] is called when there is room again.
    pub fn send(&mut self, data: &[u8]) -> usize {
        self.send_as(None, data)
    }

    /// [`send`](Self::send) for extended data; `kind` 1 is stderr.
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

    /// Bytes of bulk that may be produced now: the smallest of what the peer's window, the output queue and this
    /// channel's share of the turn allow; 0 during a key exchange. After a 0,
    /// [`ChannelHandler::on_writable`] is called when there is room again.
    pub fn budget(&mut self) -> usize {
        let budget = self.core.budget(self.slot);
        if budget == 0 {
            self.want_writable();
        }
        budget
    }

    /// What the peer's window has left, bytes; 0 for a channel that is closed.
    pub fn window(&self) -> usize {
        self.channel().map_or(0, |id| self.core.connection.send_budget(id))
    }

    /// Lays out packets for up to `want` bytes (at most 64 packets, and never more than the peer's window) in
    /// the send buffer and lets `fill` write the data straight into them, for example with `readv`. Sends what
    /// `fill` says it wrote, returns that number. `fill` is not called when nothing may be sent.
    /// Ask [`budget`](Self::budget) for `want`.
    pub fn send_in_place(
        &mut self,
        want: usize,
        fill: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> usize,
    ) -> usize {
        let Some(id) = self.channel() else { return 0 };
        let (connection, sink) = self.core.speak();
        let sent = connection.send_in_place(id, want, sink, fill);
        self.spend(sent);
        sent
    }

    /// [`send_in_place`](Self::send_in_place) for extended data; `kind` 1 is stderr.
    pub fn send_ext_in_place(
        &mut self,
        kind: u32,
        want: usize,
        fill: &mut dyn FnMut(&mut [IoSliceMut<'_>]) -> usize,
    ) -> usize {
        let Some(id) = self.channel() else { return 0 };
        let (connection, sink) = self.core.speak();
        let sent = connection.send_ext_in_place(id, kind, want, sink, fill);
        self.spend(sent);
        sent
    }

    fn spend(&mut self, sent: usize) {
        if let Some(slot) = self.core.slots.get_mut(self.slot).and_then(Option::as_mut) {
            slot.share = slot.share.saturating_sub(sent);
        }
    }

    /// Asks for a call of [`ChannelHandler::on_writable`] as soon as there is budget, in the next turn at the
    /// earliest.
    pub fn want_writable(&mut self) {
        if let Some(slot) = self.core.slots.get_mut(self.slot).and_then(Option::as_mut) {
            slot.wants_write = slot.open;
        }
    }

    /// True while data may be sent, window or not: open, and neither EOF nor CLOSE said here.
    pub fn can_send(&self) -> bool {
        self.channel().is_some_and(|id| self.core.connection.can_send(id))
    }

    /// The channel is spoken on because the peer has promised to open it; it has not answered yet.
    pub fn is_promised(&self) -> bool {
        self.channel().is_some_and(|id| self.core.connection.is_promised(id))
    }

    /// Largest data in one packet of this channel.
    pub fn max_packet(&self) -> usize {
        self.channel().map_or(0, |id| self.core.connection.remote_max_packet(id))
    }

    /// Output of the whole connection that waits to be written, bytes.
    pub fn queued_output(&self) -> usize {
        self.core.link.transport_ref().queued_bytes()
    }

    /// `n` bytes of [`ChannelEvent::Data`] have gone on: the peer may send as many more.
    ///
    /// Credit of less than a packet may be kept back while other bytes are unconsumed, so never wait for
    /// more than the window less one packet before consuming.
    pub fn consumed(&mut self, n: usize) {
        let Some(id) = self.channel() else { return };
        let now = self.core.now;
        let (connection, sink) = self.core.speak();
        connection.consumed(id, n, now, sink);
    }

    /// Says that no more data comes. Once; further calls do nothing.
    pub fn eof(&mut self) {
        let Some(id) = self.channel() else { return };
        let (connection, sink) = self.core.speak();
        connection.eof(id, sink);
    }

    /// Closes the channel; [`ChannelEvent::Closed`] follows when the peer has closed it too. What still arrives
    /// is dropped.
    pub fn close(&mut self) {
        let Some(id) = self.channel() else { return };
        let (connection, sink) = self.core.speak();
        connection.close(id, sink);
    }

    /// Sends a channel request; with `want_reply`, [`ChannelEvent::RequestReply`] follows in order. `false` when
    /// the channel is not open.
    pub fn request(&mut self, name: &str, want_reply: bool, fields: &[u8]) -> bool {
        let Some(id) = self.channel() else { return false };
        let (connection, sink) = self.core.speak();
        connection.request(id, name, want_reply, fields, sink)
    }

    /// Answers the oldest unanswered request of this channel.
    pub fn reply(&mut self, ok: bool) {
        let Some(id) = self.channel() else { return };
        let (connection, sink) = self.core.speak();
        connection.reply(id, ok, sink);
    }

    /// Leaves a note for the control, delivered as [`ControlEvent::Note`](crate::ControlEvent::Note) in this turn.
    pub fn notify(&mut self, note: impl Any) {
        self.core.notes.push_back((self.handler, self.id, Box::new(note)));
    }

    /// Stops the loop: [`Driver::run`](crate::Driver::run) returns `code`.
    pub fn stop(&mut self, code: i32) {
        self.core.stop.get_or_insert(code);
    }

    /// What the control can do, for handlers that open channels or send global requests.
    pub const fn control(&mut self) -> ControlCx<'_> {
        ControlCx::new(self.core)
    }
}

/// What a [`Control`](crate::Control) or a [`Source`] can do.
pub struct ControlCx<'a> {
    pub(crate) core: &'a mut Core,
}

impl<'a> ControlCx<'a> {
    pub(crate) const fn new(core: &'a mut Core) -> Self {
        Self { core }
    }

    /// When this turn of the loop began.
    pub const fn now(&self) -> Instant {
        self.core.now
    }

    /// Channels that exist, with their handlers.
    pub fn channels(&self) -> usize {
        self.core.slots.iter().flatten().count()
    }

    /// Asks the peer for a channel. The handler hears [`ChannelEvent::Opened`] or [`ChannelEvent::OpenFailed`].
    ///
    /// # Errors
    /// All channels are in use; the handler is dropped.
    pub fn open(
        &mut self,
        kind: &str,
        fields: &[u8],
        options: &ChannelOptions,
        handler: Box<dyn ChannelHandler>,
    ) -> Result<ChannelId, OpenError> {
        let (connection, sink) = self.core.speak();
        let id = connection.open(kind, fields, options, sink)?;
        self.core.attach(id, handler);
        Ok(id)
    }

    /// Accepts a channel the peer asked for; the handler hears [`ChannelEvent::Opened`] before this returns.
    /// `false` when nothing was asked.
    pub fn accept(
        &mut self,
        id: ChannelId,
        options: &ChannelOptions,
        fields: &[u8],
        handler: Box<dyn ChannelHandler>,
    ) -> bool {
        let (connection, sink) = self.core.speak();
        if !connection.accept(id, options, fields, sink) {
            return false;
        }
        self.core.attach(id, handler);
        self.core.deliver(id, ChannelEvent::Opened { fields: bytes::Bytes::new() });
        true
    }

    /// Refuses a channel the peer asked for, with one of [`lh_wire::msg::open_failure`] and a text for a person.
    pub fn refuse(&mut self, id: ChannelId, reason: u32, text: &str) {
        let (connection, sink) = self.core.speak();
        connection.refuse(id, reason, text, sink);
    }

    /// Sends a global request; with `want_reply`, [`ControlEvent::GlobalReply`](crate::ControlEvent::GlobalReply)
    /// follows in order.
    pub fn global_request(&mut self, name: &str, want_reply: bool, fields: &[u8]) {
        let (connection, sink) = self.core.speak();
        connection.global_request(name, want_reply, fields, sink);
    }

    /// Answers the oldest unanswered global request; `fields` go with a success only.
    pub fn reply_global(&mut self, ok: bool, fields: &[u8]) {
        let (connection, sink) = self.core.speak();
        connection.reply_global(ok, fields, sink);
    }

    /// Takes a number for a channel that somebody else opens and speaks for: [`send_message`](Self::send_message) sends what he
    /// says, [`ControlEvent::Relayed`](crate::ControlEvent::Relayed) brings what he is told. `None` when all are in use.
    pub fn relay(&mut self) -> Option<ChannelId> {
        self.core.connection.relay()
    }

    /// Lets somebody else answer an open of the peer's, and speak for the channel. `None` when nothing was asked.
    pub fn hand_over(&mut self, id: ChannelId) -> Option<HandedOver> {
        self.core.connection.hand_over(id)
    }

    /// The number of a relayed channel is free again: nothing more will come or be said about it.
    pub fn end_relay(&mut self, id: ChannelId) {
        self.core.connection.end_relay(id);
    }

    /// Sends a message of the connection protocol as it is. For relayed channels.
    pub fn send_message(&mut self, message: &[u8]) {
        let (_, sink) = self.core.speak();
        sink.payload(message);
    }

    /// True while bulk may be sent: the output queue is short and no key exchange is under way. A [`Source`] that finds that it is
    /// not asks for [`Source::on_room`].
    pub fn has_room(&mut self) -> bool {
        self.core.room() > 0
    }

    /// Acts on a channel from outside its handler: send a window-change, close it. `None` when it is not there.
    pub fn channel(&mut self, id: ChannelId) -> Option<ChannelCx<'_>> {
        let slot = self.core.slot_of(id)?;
        let handler = self.handler_of(id)?;
        Some(ChannelCx::new(self.core, slot, id, handler))
    }

    /// The handler of an open channel.
    pub fn handler_of(&self, id: ChannelId) -> Option<HandlerId> {
        let slot = self.core.slot_of(id)?;
        self.core.slots.get(slot)?.as_ref().map(|slot| slot.id)
    }

    /// Handlers that exist, those included whose channel is closed and that still hand on what they hold.
    pub fn handler_count(&self) -> usize {
        self.core.slots.iter().flatten().count()
    }

    /// Adds an event source; it is asked for its interests from the next wait on.
    pub fn add_source(&mut self, source: Box<dyn Source>) -> SourceId {
        let id = SourceId(self.core.next_id());
        self.core.sources.push((id, Some(source)));
        id
    }

    /// Drops an event source.
    pub fn remove_source(&mut self, id: SourceId) {
        self.core.removed_sources.push(id);
    }

    /// Sends SSH_MSG_DEBUG (RFC 4253 section 11.3): a remark for the person at the other end.
    pub fn debug_message(&mut self, always_display: bool, text: &str) {
        let message = lh_wire::msg::Debug::new(always_display, text.as_bytes(), b"");
        let (_, sink) = self.core.speak();
        sink.payload(&lh_wire::Message::to_payload(&message));
    }

    /// The transport: answers to host key and signature events, names of algorithms, counters.
    pub const fn transport(&mut self) -> &mut Transport {
        self.core.link.transport()
    }

    /// Our address and the peer's, where the connection is a TCP socket.
    pub fn addresses(&self) -> Option<(std::net::SocketAddr, std::net::SocketAddr)> {
        let socket = self.core.link.stream().read_fd();
        Some((lh_sys::socket::local_address(socket)?, lh_sys::socket::peer_address(socket)?))
    }

    /// The channels, to look at (windows, backlog, round trip).
    pub const fn connection(&mut self) -> &mut Connection {
        &mut self.core.connection
    }

    /// Sends SSH_MSG_DISCONNECT. Nothing can be sent afterwards; stop the loop too.
    pub fn disconnect(&mut self, reason: u32, text: &str) {
        self.core.link.transport().disconnect(reason, text);
    }

    /// Stops the loop: [`Driver::run`](crate::Driver::run) returns `code`.
    pub fn stop(&mut self, code: i32) {
        self.core.stop.get_or_insert(code);
    }
}
