//! The traits that users of the driver implement, and their events.

use std::any::Any;
use std::time::Instant;

use bytes::Bytes;
use lh_connection::ChannelId;
use lh_transport::Negotiated;

use crate::ids::HandlerId;
use crate::{ChannelCx, ControlCx, Interests, Ready};

/// Event on one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelEvent {
    /// The channel is open: the peer accepted it, or we did. It is the first event of every handler, except
    /// where [`OpenFailed`](Self::OpenFailed) comes instead.
    Opened {
        /// Fields of the peer's acceptance; empty where we accepted.
        fields: Bytes,
    },
    /// The peer refused the channel. This is the last event; the handler is dropped.
    OpenFailed {
        /// One of [`lh_wire::msg::open_failure`].
        reason: u32,
        /// The peer's text, untrusted.
        description: String,
    },
    /// Data arrived. Call [`ChannelCx::consumed`] when it has been passed on, and not before: that bounds
    /// memory. A kept slice keeps the whole receive buffer (about 1 MiB) alive, so copy small data that
    /// stays.
    Data {
        /// `Some(1)` is stderr, `None` the main stream.
        ext: Option<u32>,
        /// The data.
        data: Bytes,
    },
    /// The peer sends no more data.
    Eof,
    /// A channel request; where `want_reply`, call [`ChannelCx::reply`] once, in order.
    Request {
        /// The request's name.
        name: String,
        /// The peer expects a reply.
        want_reply: bool,
        /// Fields of the request.
        fields: Bytes,
    },
    /// The answer to one of our requests.
    RequestReply {
        /// The request's name.
        name: String,
        /// Success or failure.
        ok: bool,
    },
    /// Both sides have closed the channel: no more data can be sent. The handler stays until it is
    /// [`finished`](ChannelHandler::finished), so that it can pass on what it still holds.
    Closed,
}

/// The local side of one channel.
///
/// Methods must not block. Handlers live on the driver's thread only; share state with a [`Control`] through
/// `Rc`.
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

/// Event on the connection as a whole.
#[non_exhaustive]
pub enum ControlEvent {
    /// The peer wants a channel: answer with [`ControlCx::accept`] or [`ControlCx::refuse`], now or later.
    OpenRequested {
        /// The channel.
        id: ChannelId,
        /// Channel type.
        kind: String,
        /// Fields of the type.
        fields: Bytes,
    },
    /// A global request: where `want_reply`, answer with [`ControlCx::reply_global`] once, in order.
    GlobalRequest {
        /// The request's name.
        name: String,
        /// The peer expects a reply.
        want_reply: bool,
        /// Fields of the request.
        fields: Bytes,
    },
    /// A message about a channel that a mux client speaks for ([`ControlCx::relay`]).
    Relayed {
        /// The channel.
        id: ChannelId,
        /// The whole message.
        message: Bytes,
    },
    /// The answer to one of our global requests (except the driver's own keepalives).
    GlobalReply {
        /// The request's name.
        name: String,
        /// Success or failure.
        ok: bool,
        /// Fields of the answer.
        fields: Bytes,
    },
    /// A channel is closed and its handler has finished and been dropped (or its open failed).
    ChannelGone {
        /// The channel's number, which may be in use again.
        id: ChannelId,
        /// The handler.
        handler: HandlerId,
    },
    /// What a handler passed to [`ChannelCx::notify`].
    Note {
        /// The handler that sent it.
        handler: HandlerId,
        /// The channel of the handler at that time.
        id: ChannelId,
        /// The value, of a type that the handler and the control agree on.
        note: Box<dyn Any>,
    },
    /// Client, during a rekey: the server presents a host key other than the accepted one. Answer with
    /// `cx.transport().host_key_accepted(…)` or stop.
    HostKey {
        /// The signature algorithm.
        algorithm: String,
        /// Public key blob.
        blob: Vec<u8>,
    },
    /// Server, during a rekey: sign with host key `key_index` and pass the signature to
    /// `cx.transport().exchange_hash_signed(…)`, now or later.
    SignExchangeHash {
        /// Signature algorithm.
        algorithm: String,
        /// Index of the host key.
        key_index: usize,
        /// The data to sign.
        data: Vec<u8>,
    },
    /// A rekey is complete.
    KexDone {
        /// The negotiated algorithms.
        names: Negotiated,
    },
    /// EXT_INFO after authentication.
    ExtInfo(Vec<(String, Vec<u8>)>),
    /// The answer to one of our `ping@openssh.com` messages.
    Pong(Bytes),
    /// SSH_MSG_DEBUG. Untrusted.
    Debug {
        /// The peer asks to show it in any case.
        always_display: bool,
        /// The text.
        text: Vec<u8>,
    },
    /// A message that belongs to services or authentication (numbers 5, 6 and 50 to 79), such as a late
    /// banner. May be ignored.
    Packet(Bytes),
    /// The peer sent SSH_MSG_DISCONNECT. Unless the loop is stopped now, it ends with
    /// [`DriverError::Disconnected`](crate::DriverError::Disconnected).
    Disconnected {
        /// `SSH_DISCONNECT_*` code.
        reason: u32,
        /// The peer's text, untrusted.
        description: String,
    },
}

/// The program's policy: decides what the peer may do, and adds event sources of its own.
pub trait Control {
    /// Handles an event. Channel opens must be answered, and global requests that want a reply too.
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>);

    /// Lists descriptors to wait for (signals, child processes), before every wait.
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        let _ = out;
    }

    /// Called when a descriptor of [`interests`](Self::interests) is ready.
    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ControlCx<'_>) {
        let _ = (token, ready, cx);
    }

    /// Time at which to call [`on_timeout`](Self::on_timeout), asked before every wait.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// Called when [`next_deadline`](Self::next_deadline) has passed. Must move or clear it.
    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let _ = cx;
    }

    /// Called in every turn, before the wait and at the end, when all events have been delivered and before
    /// output is flushed. It is the place to inspect state shared with handlers. Keep it short.
    fn before_wait(&mut self, cx: &mut ControlCx<'_>) {
        let _ = cx;
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

    /// True when the source has data to send and waits for [`ControlCx::has_room`].
    fn waits_for_room(&self) -> bool {
        false
    }

    /// Called when bulk may be sent again. May also be called without a request.
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
