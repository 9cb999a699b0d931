//! The handlers of channels, the event sources, and the contexts through which both act.
//!
//! They are in one module because each names the others: a handler is called with a context, and a context
//! installs handlers. Further operations of contexts are in other modules: sending data (`channel_output`),
//! messages outside channels (`messages`), properties of the connection (`facts`), resumption over another
//! link (`resume`).

use std::any::Any;
use std::time::Instant;

use crate::event::ChannelEvent;
use crate::ids::{HandlerId, SourceId};
use crate::poller::{Interests, Ready};
use lh_connection::{ChannelId, ChannelOptions, OpenError};

/// The state of a connection, with these handlers and sources.
pub(crate) type Core = crate::core::Core<dyn ChannelHandler, dyn Source>;

/// The local side of one channel.
///
/// Methods must not block. Handlers live on the driver's thread only; share state with a
/// [`Control`](crate::Control) through `Rc`.
pub trait ChannelHandler {
    /// Handles an event on the channel.
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>);

    /// Called when all events of one read of the socket have been delivered: the time to write received data
    /// in one go.
    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        let _ = cx;
    }

    /// Called when there is budget again after [`ChannelCx::budget`] returned 0 (or
    /// [`ChannelCx::want_writable`] was called).
    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        let _ = cx;
    }

    /// Lists the descriptors to wait for, before every wait. Leave out a descriptor that the handler could
    /// not serve: if it is ready, the loop spins.
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        let _ = out;
    }

    /// Called when a descriptor of [`interests`](Self::interests) is ready.
    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ChannelCx<'_>) {
        let _ = (token, ready, cx);
    }

    /// Time at which to call [`on_timeout`](Self::on_timeout), asked before every wait.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Called when [`next_deadline`](Self::next_deadline) has passed. Must move or clear it.
    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        let _ = cx;
    }

    /// True when a handler has no work left after [`ChannelEvent::Closed`] and can be dropped.
    fn finished(&self) -> bool {
        true
    }
}

/// An event source without a channel: a listener, a connect in progress, a child process.
/// Add it with [`ControlCx::add_source`].
pub trait Source {
    /// Lists descriptors to wait for, before every wait.
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        let _ = out;
    }

    /// Called when a descriptor of [`interests`](Self::interests) is ready.
    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ControlCx<'_>) {
        let _ = (token, ready, cx);
    }

    /// True when the source has data to send and waits until [`ControlCx::has_room`] returns true.
    fn waits_for_room(&self) -> bool {
        false
    }

    /// Called when bulk data may be sent again. May also be called without a request.
    fn on_room(&mut self, cx: &mut ControlCx<'_>) {
        let _ = cx;
    }

    /// Time at which to call [`on_timeout`](Self::on_timeout).
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Called when [`next_deadline`](Self::next_deadline) has passed. Must move or clear it.
    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let _ = cx;
    }

    /// True when the source is done and can be dropped. Asked after each call of its other methods.
    fn finished(&self) -> bool {
        false
    }
}

/// Operations of a [`ChannelHandler`] on its own channel, and the few on the connection that a handler may
/// have. Once the channel is closed those on the channel have no effect.
pub struct ChannelCx<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) slot: usize,
    id: ChannelId,
    handler: HandlerId,
}

impl<'a> ChannelCx<'a> {
    pub(crate) const fn new(core: &'a mut Core, slot: usize, id: ChannelId, handler: HandlerId) -> Self {
        Self { core, slot, id, handler }
    }

    /// Number of the channel, while it is open.
    pub(crate) fn channel(&self) -> Option<ChannelId> {
        self.core.slots.get(self.slot).filter(|slot| slot.open).map(|slot| slot.channel)
    }

    /// True until [`ChannelEvent::Closed`] (or [`ChannelEvent::OpenFailed`]) has been delivered.
    pub fn is_open(&self) -> bool {
        self.channel().is_some()
    }

    /// Number of the channel. Another channel may get it after [`ChannelEvent::Closed`].
    pub const fn id(&self) -> ChannelId {
        self.id
    }

    /// Identifier of the handler, never reused.
    pub const fn handler_id(&self) -> HandlerId {
        self.handler
    }

    /// Start time of this turn of the loop.
    pub const fn now(&self) -> Instant {
        self.core.now
    }

    /// True while the channel is open and this side has sent neither EOF nor CLOSE, regardless of the window.
    pub fn can_send(&self) -> bool {
        self.channel().is_some_and(|id| self.core.connection.can_send(id))
    }

    /// True while data is sent early: the peer has promised to open the channel and has not answered yet.
    pub fn is_promised(&self) -> bool {
        self.channel().is_some_and(|id| self.core.connection.is_promised(id))
    }

    /// Upper limit of data in one packet of this channel, bytes.
    pub fn max_packet(&self) -> usize {
        self.channel().map_or(0, |id| self.core.connection.remote_max_packet(id))
    }

    /// Bytes that the channel has carried: received, sent. `None` for a closed channel.
    pub fn moved(&self) -> Option<(u64, u64)> {
        self.channel().and_then(|id| self.core.connection.moved(id))
    }

    /// Output of the whole connection that waits to be written, bytes.
    pub fn queued_output(&self) -> usize {
        self.core.link.transport_ref().queued_bytes()
    }

    /// Returns credit for `n` bytes of [`ChannelEvent::Data`] that have been passed on: the peer may send as
    /// many more.
    ///
    /// Credit below one packet may be held back while other bytes are unconsumed. So never wait for more than
    /// the window less one packet before consuming.
    pub fn consumed(&mut self, n: usize) {
        let Some(id) = self.channel() else { return };
        let now = self.core.now;
        let (connection, sink) = self.core.speak();
        connection.consumed(id, n, now, sink);
    }

    /// Sends EOF: no more data comes. Repeated calls do nothing.
    pub fn eof(&mut self) {
        let Some(id) = self.channel() else { return };
        let (connection, sink) = self.core.speak();
        connection.eof(id, sink);
    }

    /// Closes the channel. [`ChannelEvent::Closed`] follows when the peer has closed it too; data that
    /// arrives until then is dropped.
    pub fn close(&mut self) {
        let Some(id) = self.channel() else { return };
        let (connection, sink) = self.core.speak();
        connection.close(id, sink);
    }

    /// Sends a channel request. With `want_reply`, [`ChannelEvent::RequestReply`] follows in order. Returns
    /// `false` when the channel is not open.
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

    /// Queues a note for the control, delivered as [`ControlEvent::Note`](crate::ControlEvent::Note) in this
    /// turn.
    pub fn notify(&mut self, note: impl Any) {
        self.core.notes.push_back((self.handler, self.id, Box::new(note)));
    }

    /// Stops the loop: [`Driver::run`](crate::Driver::run) returns `code`.
    pub fn stop(&mut self, code: i32) {
        self.core.stop.get_or_insert(code);
    }

    /// The operations on the whole connection, for those that a handler may have.
    pub(crate) const fn control(&mut self) -> ControlCx<'_> {
        ControlCx::new(self.core)
    }
}

/// Operations of a [`Control`](crate::Control) or a [`Source`].
pub struct ControlCx<'a> {
    pub(crate) core: &'a mut Core,
}

impl<'a> ControlCx<'a> {
    pub(crate) const fn new(core: &'a mut Core) -> Self {
        Self { core }
    }

    /// Start time of this turn of the loop.
    pub const fn now(&self) -> Instant {
        self.core.now
    }

    /// Asks the peer to open a channel. The handler receives [`ChannelEvent::Opened`] or
    /// [`ChannelEvent::OpenFailed`].
    ///
    /// # Errors
    /// All channel numbers are in use; the handler is dropped.
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

    /// Accepts a channel that the peer asked for. The handler receives [`ChannelEvent::Opened`] before this
    /// returns. Returns `false` when no such request is pending.
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

    /// Refuses a channel that the peer asked for, with one of [`lh_wire::msg::open_failure`] and a text for
    /// the user.
    pub fn refuse(&mut self, id: ChannelId, reason: u32, text: &str) {
        let (connection, sink) = self.core.speak();
        connection.refuse(id, reason, text, sink);
    }

    /// True while bulk data may be sent: the output queue is short and no key exchange is in progress. A
    /// [`Source`] that gets false waits for [`Source::on_room`].
    pub fn has_room(&mut self) -> bool {
        self.core.room() > 0
    }

    /// Context of a channel for code outside its handler: to send a window-change, or to close it. `None`
    /// when the channel does not exist.
    pub fn channel(&mut self, id: ChannelId) -> Option<ChannelCx<'_>> {
        self.core.channel_cx(id)
    }

    /// Identifier of the handler of an open channel.
    pub fn handler_of(&self, id: ChannelId) -> Option<HandlerId> {
        self.core.handler_of(id)
    }

    /// Number of handlers, including those of closed channels that still pass data on.
    pub fn handler_count(&self) -> usize {
        self.core.slots.handlers()
    }

    /// Adds an event source. The loop asks it for its interests from the next wait on.
    pub fn add_source(&mut self, source: Box<dyn Source>) -> SourceId {
        let id = SourceId(self.core.next_id());
        self.core.sources.push((id, Some(source)));
        id
    }

    /// Drops an event source.
    pub fn remove_source(&mut self, id: SourceId) {
        self.core.removed_sources.push(id);
    }

    /// Server: see [`Connection::keep_first`](lh_connection::Connection::keep_first).
    pub fn keep_first(&mut self, window: u32) {
        self.core.connection.keep_first(window);
    }

    /// Client: see [`Connection::promise_first`](lh_connection::Connection::promise_first).
    pub fn promise_first(&mut self, window: u32) {
        self.core.connection.promise_first(window);
    }

    /// Local and peer address of the connection, where it is a TCP socket.
    pub fn addresses(&self) -> Option<(std::net::SocketAddr, std::net::SocketAddr)> {
        let socket = self.core.link.stream().read_fd();
        Some((lh_sys::socket::local_address(socket)?, lh_sys::socket::peer_address(socket)?))
    }

    /// Stops the loop: [`Driver::run`](crate::Driver::run) returns `code`.
    pub fn stop(&mut self, code: i32) {
        self.core.stop.get_or_insert(code);
    }
}

impl Core {
    /// Identifier of the handler of an open channel.
    pub(crate) fn handler_of(&self, id: ChannelId) -> Option<HandlerId> {
        self.slots.get(self.slots.of(id)?).map(|slot| slot.id)
    }

    /// Context of a channel; `None` when it does not exist.
    pub(crate) fn channel_cx(&mut self, id: ChannelId) -> Option<ChannelCx<'_>> {
        let (slot, handler) = (self.slots.of(id)?, self.handler_of(id)?);
        Some(ChannelCx::new(self, slot, id, handler))
    }

    /// Delivers an event to the channel's handler.
    pub(crate) fn deliver(&mut self, channel: ChannelId, event: ChannelEvent) {
        let Some(index) = self.slots.of(channel) else { return };
        if matches!(event, ChannelEvent::Closed | ChannelEvent::OpenFailed { .. }) {
            self.slots.close(index);
        }
        let mut data_arrived = false;
        if let Some(slot) = self.slots.get_mut(index) {
            if let ChannelEvent::Data { data, .. } = &event {
                slot.moved += data.len();
                data_arrived = true;
            }
            if !slot.in_batch {
                slot.in_batch = true;
                self.batch.push(index);
            }
        }
        self.call(index, |handler, cx| handler.on_event(event, cx));
        if data_arrived && self.connection.holds_windows() {
            // Credit that was kept back is due though the handler may consume nothing before more arrives.
            let now = self.now;
            let (connection, sink) = self.speak();
            connection.consumed(channel, 0, now, sink);
        }
    }

    /// Calls a handler, unless a call of it is already in progress.
    pub(crate) fn call(&mut self, index: usize, f: impl FnOnce(&mut dyn ChannelHandler, &mut ChannelCx<'_>)) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        let (id, channel) = (slot.id, slot.channel);
        let Some(mut handler) = slot.handler.take() else { return };
        f(&mut *handler, &mut ChannelCx::new(self, index, channel, id));
        if let Some(slot) = self.slots.get_mut(index) {
            slot.handler = Some(handler);
        }
    }
}
