//! Errors that end a connection.

use lh_wire::WireError;
use lh_wire::msg::disconnect;

/// A violation of RFC 4254 by the peer; the connection ends. `Display` is one line for a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// A message could not be decoded.
    #[error("malformed {message}: {source}")]
    Malformed {
        /// Name of the message.
        message: &'static str,
        /// The decoding error.
        source: WireError,
    },
    /// The message names a channel that does not exist, or no longer exists.
    #[error("{message} for nonexistent channel {channel}")]
    NoChannel {
        /// Name of the message.
        message: &'static str,
        /// The number that the peer sent.
        channel: u32,
    },
    /// The channel is being opened, so only the answer to the open is permitted.
    #[error("channel {channel}: unexpected {message} before the channel is open")]
    NotYetOpen {
        /// Our number for the channel.
        channel: u32,
        /// Name of the message.
        message: &'static str,
    },
    /// The channel's state does not permit the message: a second answer to an open.
    #[error("channel {channel}: unexpected {message} {when}")]
    Unexpected {
        /// Our number for the channel.
        channel: u32,
        /// Name of the message.
        message: &'static str,
        /// The channel's state, as the end of the error message.
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
        /// Data in the packet, bytes.
        got: usize,
        /// Bytes left in the window.
        window: u64,
    },
    /// More data in one packet than we announced.
    #[error("channel {channel}: packet of {got} bytes, {limit} allowed")]
    PacketTooBig {
        /// Our number for the channel.
        channel: u32,
        /// Data in the packet, bytes.
        got: usize,
        /// The limit that we announced, bytes.
        limit: u32,
    },
    /// A window beyond 2^32-1 bytes (RFC 4254 section 5.2).
    #[error("channel {channel}: adjust of {bytes} bytes overflows the window")]
    AdjustOverflow {
        /// Our number for the channel.
        channel: u32,
        /// Bytes that the peer wanted to add.
        bytes: u32,
    },
    /// The peer accepts no data at all in a packet, so nothing could ever be sent.
    #[error("peer announced a maximum packet size of 0")]
    ZeroMaxPacket,
    /// The peer's requests are legal but excessive: too many are unanswered.
    #[error("peer sent more than {limit} requests without waiting for answers")]
    TooManyRequests {
        /// The limit.
        limit: u32,
    },
    /// The message does not belong to this protocol.
    #[error("message {number} does not belong to the connection protocol")]
    NotOurs {
        /// The message number.
        number: u8,
    },
}

impl ConnectionError {
    /// Returns the `SSH_DISCONNECT_*` reason to send: always PROTOCOL_ERROR, as in OpenSSH.
    pub const fn disconnect_reason(&self) -> u32 {
        disconnect::PROTOCOL_ERROR
    }
}

/// Error of opening a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// [`Config::max_channels`](crate::Config::max_channels) are in use.
    #[error("too many channels")]
    TooManyChannels,
}
