//! Events on one channel.

use bytes::Bytes;

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
    /// Data arrived. Call [`consumed`](crate::ChannelCx::consumed) when it has been passed on, and not
    /// before: that bounds memory. A kept slice keeps the whole receive buffer (about 1 MiB) alive, so copy
    /// small data that stays.
    Data {
        /// `Some(1)` is stderr, `None` the main stream.
        ext: Option<u32>,
        /// The data.
        data: Bytes,
    },
    /// The peer sends no more data.
    Eof,
    /// A channel request; where `want_reply`, call [`reply`](crate::ChannelCx::reply) once, in order.
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
    /// [`finished`](crate::ChannelHandler::finished), so that it can pass on what it still holds.
    Closed,
}
