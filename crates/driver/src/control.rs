//! [`Control`]: the program's policy for a connection, and its events.

use std::any::Any;
use std::time::Instant;

use bytes::Bytes;
use lh_connection::ChannelId;
use lh_transport::Negotiated;

use crate::handler::ControlCx;
use crate::ids::HandlerId;
use crate::poller::{Interests, Ready};

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
    /// A message about a channel that a mux client handles ([`ControlCx::relay`]).
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
    /// The value that a handler passed to [`ChannelCx::notify`](crate::ChannelCx::notify).
    Note {
        /// The handler that sent it.
        handler: HandlerId,
        /// The channel of the handler at that time.
        id: ChannelId,
        /// The value, of a type that the handler and the control agree on.
        note: Box<dyn Any>,
    },
    /// Client, during a rekey: the server presents a host key other than the accepted one. Answer with
    /// [`ControlCx::host_key_accepted`] or stop.
    HostKey {
        /// The signature algorithm.
        algorithm: String,
        /// Public key blob.
        blob: Vec<u8>,
    },
    /// Server, during a rekey: sign with host key `key_index` and pass the signature to
    /// [`ControlCx::exchange_hash_signed`], now or later.
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
        /// The peer asks to display it regardless of the log level.
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
