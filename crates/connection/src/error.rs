//! Why a connection cannot go on.

use lh_wire::WireError;
use lh_wire::msg::disconnect;

/// The peer broke a rule of RFC 4254; the connection ends. `Display` is one line for a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// A message could not be read.
    #[error("malformed {message}: {source}")]
    Malformed {
        /// Which message.
        message: &'static str,
        /// What is wrong with it.
        source: WireError,
    },
    /// A message for a channel that does not exist, or not any more.
    #[error("{message} for nonexistent channel {channel}")]
    NoChannel {
        /// Which message.
        message: &'static str,
        /// The number the peer gave.
        channel: u32,
    },
    /// A message the channel's state does not allow: data before the channel is open, a second answer to an open.
    #[error("channel {channel}: unexpected {message} {when}")]
    Unexpected {
        /// Our number for the channel.
        channel: u32,
        /// Which message.
        message: &'static str,
        /// What the channel was doing.
        when: &'static str,
    },
    /// Data after the peer's own EOF (RFC 4254 section 5.3).
    #[error("channel {channel}: data after EOF")]
    DataAfterEof {
        /// Our number for the channel.
        channel: u32,
    },
    /// More data than the window allowed (RFC 4254 section 5.2).
    #[error("channel {channel}: peer ignored the window: {got} bytes, {window} allowed")]
    WindowExceeded {
        /// Our number for the channel.
        channel: u32,
        /// Data in the packet.
        got: usize,
        /// What was left of the window.
        window: u64,
    },
    /// More data in one packet than we said we take.
    #[error("channel {channel}: packet of {got} bytes, {limit} allowed")]
    PacketTooBig {
        /// Our number for the channel.
        channel: u32,
        /// Data in the packet.
        got: usize,
        /// What we announced.
        limit: u32,
    },
    /// A window beyond 2^32-1 bytes (RFC 4254 section 5.2).
    #[error("channel {channel}: adjust of {bytes} bytes overflows the window")]
    AdjustOverflow {
        /// Our number for the channel.
        channel: u32,
        /// What the peer wanted to add.
        bytes: u32,
    },
    /// The peer takes no data at all in a packet: nothing could ever be sent.
    #[error("peer announced a maximum packet size of 0")]
    ZeroMaxPacket,
    /// Legal but abusive: too many requests that we have not answered yet.
    #[error("peer sent more than {limit} requests without waiting for answers")]
    TooManyRequests {
        /// The limit.
        limit: u32,
    },
    /// Not a message of this protocol.
    #[error("message {number} does not belong to the connection protocol")]
    NotOurs {
        /// The message number.
        number: u8,
    },
}

impl ConnectionError {
    /// The `SSH_DISCONNECT_*` reason to send: PROTOCOL_ERROR for all of them, as OpenSSH does.
    pub const fn disconnect_reason(&self) -> u32 {
        disconnect::PROTOCOL_ERROR
    }
}

/// Why a channel could not be opened by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// [`Config::max_channels`](crate::Config::max_channels) are in use.
    #[error("too many channels")]
    TooManyChannels,
}
