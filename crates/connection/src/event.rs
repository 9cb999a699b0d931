//! What a [`Connection`](crate::Connection) has to say.

use bytes::Bytes;

/// Our number for a channel. Always below 16384; used again only after [`Event::Closed`] (or
/// [`Event::OpenFailed`]) has been polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub(crate) u32);

impl ChannelId {
    /// The number, as it stands on the wire in what the peer sends; also handy as a table index.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl core::fmt::Display for ChannelId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// Something that happened, from [`Connection::poll_event`](crate::Connection::poll_event).
///
/// Names and kinds are the peer's: bytes that are not UTF-8 have been replaced, so they match no known name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The peer accepted a channel we opened.
    Opened {
        /// The channel.
        id: ChannelId,
        /// Fields of the channel's type.
        fields: Bytes,
    },
    /// The peer refused a channel we opened. The id is free again.
    OpenFailed {
        /// The channel.
        id: ChannelId,
        /// One of [`lh_wire::msg::open_failure`].
        reason: u32,
        /// The peer's text. Not trusted.
        description: String,
    },
    /// The peer wants a channel: answer with [`accept`](crate::Connection::accept) or
    /// [`refuse`](crate::Connection::refuse), now or later.
    OpenRequested {
        /// The channel.
        id: ChannelId,
        /// Channel type.
        kind: String,
        /// Fields of the type.
        fields: Bytes,
    },
    /// Bytes arrived. Tell [`consumed`](crate::Connection::consumed) when they have gone on.
    Data {
        /// The channel.
        id: ChannelId,
        /// `Some(1)` is stderr, `None` the main stream.
        ext: Option<u32>,
        /// The bytes: a slice of the packet they came in.
        data: Bytes,
    },
    /// The peer sends no more data on this channel.
    Eof {
        /// The channel.
        id: ChannelId,
    },
    /// Both sides have closed the channel. The id may be used again from now on.
    Closed {
        /// The channel.
        id: ChannelId,
    },
    /// A channel request: where `want_reply`, answer with [`reply`](crate::Connection::reply).
    Request {
        /// The channel.
        id: ChannelId,
        /// The request's name.
        name: String,
        /// The peer waits for an answer. Answers go out in the order of the requests.
        want_reply: bool,
        /// Fields of the request.
        fields: Bytes,
    },
    /// The answer to a channel request of ours.
    RequestReply {
        /// The channel.
        id: ChannelId,
        /// The request's name.
        name: String,
        /// Success or failure.
        ok: bool,
    },
    /// A global request: where `want_reply`, answer with [`reply_global`](crate::Connection::reply_global).
    GlobalRequest {
        /// The request's name.
        name: String,
        /// The peer waits for an answer. Answers go out in the order of the requests.
        want_reply: bool,
        /// Fields of the request.
        fields: Bytes,
    },
    /// The answer to a global request of ours.
    GlobalReply {
        /// The request's name.
        name: String,
        /// Success or failure.
        ok: bool,
        /// Fields of the answer; empty on failure.
        fields: Bytes,
    },
    /// A message of the peer about a channel that somebody else speaks for: see [`relay`](crate::Connection::relay).
    Relayed {
        /// The channel.
        id: ChannelId,
        /// The whole message.
        message: Bytes,
    },
    /// The peer opened its window after it had been empty and somebody asked for more of it.
    Writable {
        /// The channel.
        id: ChannelId,
    },
}
