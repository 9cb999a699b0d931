//! Why a running connection ended.

use std::io;

use lh_connection::ConnectionError;

use crate::link::LinkError;
use crate::resumption::Break;

/// Why the loop ended without a stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The transport or its descriptors failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The peer violated the connection protocol. It has been sent a disconnect message.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The peer sent SSH_MSG_DISCONNECT.
    #[error("disconnected by peer: {}", lh_wire::printable(.description.as_bytes()))]
    Disconnected {
        /// The `SSH_DISCONNECT_*` code.
        reason: u32,
        /// The peer's text, untrusted. `Display` of this error is printable.
        description: String,
    },
    /// The peer did not answer keepalives.
    #[error("timeout, peer not responding")]
    KeepaliveTimeout,
    /// The peer broke the rules of `resume@longhaul`. It has been sent a disconnect message.
    #[error("{0}")]
    Resume(String),
    /// Waiting for descriptors failed.
    #[error("poll: {0}")]
    Poll(#[source] io::Error),
}

impl From<Break> for DriverError {
    fn from(cause: Break) -> Self {
        match cause {
            Break::Link(error) => Self::Link(error),
            Break::Silence => Self::KeepaliveTimeout,
        }
    }
}
