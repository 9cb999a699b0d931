//! Messages of RFC 4254.

use crate::message::{Rest, messages};

messages! {
    /// `SSH_MSG_GLOBAL_REQUEST` (RFC 4254 section 4).
    GlobalRequest = 80; {
        /// The request's name.
        name: &'a [u8],
        /// The peer asks for REQUEST_SUCCESS or REQUEST_FAILURE.
        want_reply: bool,
        /// Request-specific fields.
        fields: Rest<'a>,
    }
    /// `SSH_MSG_REQUEST_SUCCESS` (RFC 4254 section 4).
    RequestSuccess = 81; {
        /// Request-specific fields of the answer.
        fields: Rest<'a>,
    }
    /// `SSH_MSG_REQUEST_FAILURE` (RFC 4254 section 4).
    RequestFailure = 82; {}
    /// `SSH_MSG_CHANNEL_OPEN` (RFC 4254 section 5.1).
    ChannelOpen = 90; {
        /// Channel type, `session` and so on.
        kind: &'a [u8],
        /// The sender's number for the channel.
        sender: u32,
        /// Initial window: bytes that the sender is ready to receive.
        window: u32,
        /// Largest data that the sender accepts in one packet, bytes.
        max_packet: u32,
        /// Fields of the channel type.
        fields: Rest<'a>,
    }
    /// `SSH_MSG_CHANNEL_OPEN_CONFIRMATION` (RFC 4254 section 5.1).
    ChannelOpenConfirmation = 91; {
        /// The number given in CHANNEL_OPEN.
        recipient: u32,
        /// The sender's own number for the channel.
        sender: u32,
        /// Initial window: bytes that the sender is ready to receive.
        window: u32,
        /// Largest data that the sender accepts in one packet, bytes.
        max_packet: u32,
        /// Fields of the channel type.
        fields: Rest<'a>,
    }
    /// `SSH_MSG_CHANNEL_OPEN_FAILURE` (RFC 4254 section 5.1).
    ChannelOpenFailure = 92; {
        /// The number given in CHANNEL_OPEN.
        recipient: u32,
        /// One of [`super::open_failure`].
        reason: u32,
        /// Text for the user.
        description: &'a [u8],
        /// RFC 3066 tag.
        language: &'a [u8],
    }
    /// `SSH_MSG_CHANNEL_WINDOW_ADJUST` (RFC 4254 section 5.2).
    ChannelWindowAdjust = 93; {
        /// The recipient's number for the channel.
        recipient: u32,
        /// Bytes to add to the window.
        bytes: u32,
    }
    /// `SSH_MSG_CHANNEL_DATA` (RFC 4254 section 5.2).
    ChannelData = 94; {
        /// The recipient's number for the channel.
        recipient: u32,
        /// Channel data.
        data: &'a [u8],
    }
    /// `SSH_MSG_CHANNEL_EXTENDED_DATA` (RFC 4254 section 5.2).
    ChannelExtendedData = 95; {
        /// The recipient's number for the channel.
        recipient: u32,
        /// Data type code; 1 is stderr.
        kind: u32,
        /// Channel data.
        data: &'a [u8],
    }
    /// `SSH_MSG_CHANNEL_EOF` (RFC 4254 section 5.3).
    ChannelEof = 96; {
        /// The recipient's number for the channel.
        recipient: u32,
    }
    /// `SSH_MSG_CHANNEL_CLOSE` (RFC 4254 section 5.3).
    ChannelClose = 97; {
        /// The recipient's number for the channel.
        recipient: u32,
    }
    /// `SSH_MSG_CHANNEL_REQUEST` (RFC 4254 section 5.4).
    ChannelRequest = 98; {
        /// The recipient's number for the channel.
        recipient: u32,
        /// The request's name.
        name: &'a [u8],
        /// The peer asks for CHANNEL_SUCCESS or CHANNEL_FAILURE.
        want_reply: bool,
        /// Request-specific fields.
        fields: Rest<'a>,
    }
    /// `SSH_MSG_CHANNEL_SUCCESS` (RFC 4254 section 5.4).
    ChannelSuccess = 99; {
        /// The recipient's number for the channel.
        recipient: u32,
    }
    /// `SSH_MSG_CHANNEL_FAILURE` (RFC 4254 section 5.4).
    ChannelFailure = 100; {
        /// The recipient's number for the channel.
        recipient: u32,
    }
}
