//! What the driver's users implement.

use std::any::Any;
use std::time::Instant;

use bytes::Bytes;
use lh_connection::ChannelId;
use lh_transport::Negotiated;

use crate::{ChannelCx, ControlCx, Interests, Ready};

/// What happened on one channel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelEvent {
    /// The channel is open: the peer accepted it, or we did. The first event of every handler but one that hears
    /// [`OpenFailed`](Self::OpenFailed).
    Opened {
        /// Fields the peer sent with its acceptance; empty where we accepted.
        fields: Bytes,
    },
    /// The peer refused the channel. The last event; the handler is dropped.
    OpenFailed {
        /// One of [`lh_wire::msg::open_failure`].
        reason: u32,
        /// The peer's text. Not trusted.
        description: String,
    },
    /// Bytes arrived. Call [`ChannelCx::consumed`] when they have gone on, and not before: that is what bounds
    /// memory. A kept slice keeps the whole receive buffer (about 1 MiB) alive: copy what is small and stays.
    Data {
        /// `Some(1)` is stderr, `None` the main stream.
        ext: Option<u32>,
        /// The bytes.
        data: Bytes,
    },
    /// The peer sends no more data.
    Eof,
    /// A channel request; where `want_reply`, call [`ChannelCx::reply`] once, in order.
    Request {
        /// The request's name.
        name: String,
        /// The peer waits for an answer.
        want_reply: bool,
        /// Fields of the request.
        fields: Bytes,
    },
    /// The answer to a request of ours.
    RequestReply {
        /// The request's name.
        name: String,
        /// Success or failure.
        ok: bool,
    },
    /// Both sides have closed the channel: nothing can be sent any more. The handler stays until it is
    /// [`finished`](ChannelHandler::finished), so that it can hand on what it still holds.
    Closed,
}

/// The local side of one channel.
///
/// Methods must not block. Handlers live on the driver's thread only; share state with a [`Control`] through `Rc`.
pub trait ChannelHandler {
    /// Something happened on the channel.
    fn on_event(&mut self, event: ChannelEvent, cx: &mut ChannelCx<'_>);

    /// All events of one read of the socket have been delivered: the time to write what has come in one go.
    fn on_batch_end(&mut self, cx: &mut ChannelCx<'_>) {
        let _ = cx;
    }

    /// There is budget again after [`ChannelCx::budget`] had said 0 (or [`ChannelCx::want_writable`] was called).
    fn on_writable(&mut self, cx: &mut ChannelCx<'_>) {
        let _ = cx;
    }

    /// Descriptors to wait for, asked before every wait. Leave out what you could not act on: a descriptor that
    /// is ready and not served makes the loop spin.
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        let _ = out;
    }

    /// A descriptor of [`interests`](Self::interests) is ready.
    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ChannelCx<'_>) {
        let _ = (token, ready, cx);
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called, asked before every wait.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// [`next_deadline`](Self::next_deadline) has passed. Must move or clear it.
    fn on_timeout(&mut self, cx: &mut ChannelCx<'_>) {
        let _ = cx;
    }

    /// After [`ChannelEvent::Closed`]: nothing is left to do, the handler can be dropped.
    fn finished(&self) -> bool {
        true
    }
}

/// Names one handler for the life of the driver; unlike a [`ChannelId`] it is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandlerId(pub(crate) u64);

/// Names a [`Source`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub(crate) u64);

/// What happened on the connection as a whole.
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
        /// The peer waits for an answer.
        want_reply: bool,
        /// Fields of the request.
        fields: Bytes,
    },
    /// A message about a channel that somebody else speaks for ([`ControlCx::relay`]).
    Relayed {
        /// The channel.
        id: ChannelId,
        /// The whole message.
        message: Bytes,
    },
    /// The answer to a global request of ours (keepalives of the driver's own excepted).
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
        /// The channel it was; the number may be in use again by now.
        id: ChannelId,
        /// The handler.
        handler: HandlerId,
    },
    /// What a handler passed to [`ChannelCx::notify`].
    Note {
        /// The handler that sent it.
        handler: HandlerId,
        /// The channel it had at that time.
        id: ChannelId,
        /// Whatever the two agreed on.
        note: Box<dyn Any>,
    },
    /// Client, during a rekey: the server shows another host key than the accepted one. Answer with
    /// `cx.transport().host_key_accepted(…)` or stop.
    HostKey {
        /// The signature algorithm.
        algorithm: String,
        /// Public key blob.
        blob: Vec<u8>,
    },
    /// Server, during a rekey: sign with host key `key_index` and answer with
    /// `cx.transport().exchange_hash_signed(…)`, now or later.
    SignExchangeHash {
        /// Signature algorithm.
        algorithm: String,
        /// Which key.
        key_index: usize,
        /// What to sign.
        data: Vec<u8>,
    },
    /// A rekey is complete.
    KexDone {
        /// What was agreed on.
        names: Negotiated,
    },
    /// EXT_INFO after authentication.
    ExtInfo(Vec<(String, Vec<u8>)>),
    /// The answer to a `ping@openssh.com` of ours.
    Pong(Bytes),
    /// SSH_MSG_DEBUG. Not trusted.
    Debug {
        /// The peer wants it shown.
        always_display: bool,
        /// The text.
        text: Vec<u8>,
    },
    /// A message that belongs to services or authentication (numbers 5, 6 and 50 to 79), such as a late banner.
    /// May be ignored.
    Packet(Bytes),
    /// The peer sent SSH_MSG_DISCONNECT. Unless the loop is stopped now, it ends with
    /// [`DriverError::Disconnected`](crate::DriverError::Disconnected).
    Disconnected {
        /// `SSH_DISCONNECT_*` code.
        reason: u32,
        /// The peer's text. Not trusted.
        description: String,
    },
}

/// The program: decides what the peer may do, and brings its own event sources.
pub trait Control {
    /// Something happened. Global requests that want an answer must get one; channel opens too.
    fn on_event(&mut self, event: ControlEvent, cx: &mut ControlCx<'_>);

    /// Descriptors to wait for (signals, child processes), asked before every wait.
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        let _ = out;
    }

    /// A descriptor of [`interests`](Self::interests) is ready.
    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ControlCx<'_>) {
        let _ = (token, ready, cx);
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called, asked before every wait.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// [`next_deadline`](Self::next_deadline) has passed. Must move or clear it.
    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let _ = cx;
    }

    /// Called in every turn of the loop, before it waits and at its end, when all that has happened was told and before output is flushed and
    /// anything is waited for: the place to look at state shared with handlers. Keep it short.
    fn before_wait(&mut self, cx: &mut ControlCx<'_>) {
        let _ = cx;
    }
}

/// An event source without a channel: a listener, a connect in progress, a child process.
/// Add it with [`ControlCx::add_source`].
pub trait Source {
    /// Descriptors to wait for, asked before every wait.
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        let _ = out;
    }

    /// A descriptor of [`interests`](Self::interests) is ready.
    fn on_ready(&mut self, token: usize, ready: Ready, cx: &mut ControlCx<'_>) {
        let _ = (token, ready, cx);
    }

    /// True when the source has something to send and waits for [`ControlCx::has_room`].
    fn waits_for_room(&self) -> bool {
        false
    }

    /// There is room. May be called without having been asked for.
    fn on_room(&mut self, cx: &mut ControlCx<'_>) {
        let _ = cx;
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    /// [`next_deadline`](Self::next_deadline) has passed. Must move or clear it.
    fn on_timeout(&mut self, cx: &mut ControlCx<'_>) {
        let _ = cx;
    }

    /// True when the source has done its work and can be dropped. Asked after each call of the others.
    fn finished(&self) -> bool {
        false
    }
}
