//! Message numbers and one struct per message.
//!
//! Numbers are plain constants, not an enum: an unknown number must survive decoding, so that it can be
//! answered with `SSH_MSG_UNIMPLEMENTED` (RFC 4253 section 11.4).

mod auth;
mod connection;
mod transport;

pub use crate::message::Rest;
pub use auth::*;
pub use connection::*;
pub use transport::*;

/// `SSH_DISCONNECT_*` reason codes of RFC 4253 section 11.1.
pub mod disconnect {
    /// The host may not connect.
    pub const HOST_NOT_ALLOWED_TO_CONNECT: u32 = 1;
    /// A message broke the protocol's rules.
    pub const PROTOCOL_ERROR: u32 = 2;
    /// No algorithm in common, or the key exchange failed a check.
    pub const KEY_EXCHANGE_FAILED: u32 = 3;
    /// Reserved; must not be sent.
    pub const RESERVED: u32 = 4;
    /// A packet's integrity check failed.
    pub const MAC_ERROR: u32 = 5;
    /// Data could not be decompressed.
    pub const COMPRESSION_ERROR: u32 = 6;
    /// The requested service is not available.
    pub const SERVICE_NOT_AVAILABLE: u32 = 7;
    /// The peer's protocol version is not supported.
    pub const PROTOCOL_VERSION_NOT_SUPPORTED: u32 = 8;
    /// The host key could not be verified.
    pub const HOST_KEY_NOT_VERIFIABLE: u32 = 9;
    /// The connection was lost.
    pub const CONNECTION_LOST: u32 = 10;
    /// The application ended the connection.
    pub const BY_APPLICATION: u32 = 11;
    /// Too many connections.
    pub const TOO_MANY_CONNECTIONS: u32 = 12;
    /// The user cancelled authentication.
    pub const AUTH_CANCELLED_BY_USER: u32 = 13;
    /// No authentication method is left.
    pub const NO_MORE_AUTH_METHODS_AVAILABLE: u32 = 14;
    /// The user name is not valid.
    pub const ILLEGAL_USER_NAME: u32 = 15;
}

/// `SSH_OPEN_*` reason codes of RFC 4254 section 5.1.
pub mod open_failure {
    /// Policy forbids the channel.
    pub const ADMINISTRATIVELY_PROHIBITED: u32 = 1;
    /// The destination of a forwarding could not be reached.
    pub const CONNECT_FAILED: u32 = 2;
    /// The channel type is unknown.
    pub const UNKNOWN_CHANNEL_TYPE: u32 = 3;
    /// No resources are left for another channel.
    pub const RESOURCE_SHORTAGE: u32 = 4;
}
