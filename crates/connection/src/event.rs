//! Events of a [`Connection`](crate::Connection).

use bytes::Bytes;

/// Our number for a channel, always below 16384. It is reused only after [`Event::Closed`] (or
/// [`Event::OpenFailed`]) has been polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub(crate) u32);

impl ChannelId {
    /// Returns the number that the peer's messages contain; also usable as a table index.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl core::fmt::Display for ChannelId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// Event from [`Connection::poll_event`](crate::Connection::poll_event).
///
/// Names and kinds come from the peer: bytes that are not UTF-8 are replaced, so they match no known name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The peer accepted a channel that we opened.
    Opened {
        /// The channel.
        id: ChannelId,
        /// Fields of the channel type.
        fields: Bytes,
    },
    /// The peer refused a channel that we opened. The id is free again.
    OpenFailed {
        /// The channel.
        id: ChannelId,
        /// One of [`lh_wire::msg::open_failure`].
        reason: u32,
        /// The peer's text. Untrusted.
        description: String,
    },
    /// The peer requests a channel: answer with [`accept`](crate::Connection::accept) or
    /// [`refuse`](crate::Connection::refuse), now or later.
    OpenRequested {
        /// The channel.
        id: ChannelId,
        /// Channel type.
        kind: String,
        /// Fields of the channel type.
        fields: Bytes,
    },
    /// Data arrived. Call [`consumed`](crate::Connection::consumed) when it has been passed on.
    Data {
        /// The channel.
        id: ChannelId,
        /// `Some(1)` is stderr, `None` is the main stream.
        ext: Option<u32>,
        /// The data: a slice of the packet that contained it.
        data: Bytes,
    },
    /// The peer will send no more data on this channel.
    Eof {
        /// The channel.
        id: ChannelId,
    },
    /// Both sides have closed the channel. The id may be reused from now on.
    Closed {
        /// The channel.
        id: ChannelId,
    },
    /// A channel request. If `want_reply`, answer with [`reply`](crate::Connection::reply).
    Request {
        /// The channel.
        id: ChannelId,
        /// The request's name.
        name: String,
        /// The peer waits for an answer. Answers are sent in the order of the requests.
        want_reply: bool,
        /// Request-specific fields.
        fields: Bytes,
    },
    /// The answer to one of our channel requests.
    RequestReply {
        /// The channel.
        id: ChannelId,
        /// The request's name.
        name: String,
        /// True for success.
        ok: bool,
    },
    /// A global request. If `want_reply`, answer with [`reply_global`](crate::Connection::reply_global).
    GlobalRequest {
        /// The request's name.
        name: String,
        /// The peer waits for an answer. Answers are sent in the order of the requests.
        want_reply: bool,
        /// Request-specific fields.
        fields: Bytes,
    },
    /// The answer to one of our global requests.
    GlobalReply {
        /// The request's name.
        name: String,
        /// True for success.
        ok: bool,
        /// Fields of the answer; empty on failure.
        fields: Bytes,
    },
    /// A message of the peer to a relayed channel: see [`relay`](crate::Connection::relay).
    Relayed {
        /// The channel.
        id: ChannelId,
        /// The whole message.
        message: Bytes,
    },
    /// The peer enlarged its window after it was empty and the owner wanted to send more.
    Writable {
        /// The channel.
        id: ChannelId,
    },
}
