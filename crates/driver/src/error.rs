//! Errors that end a running connection.

use std::io;

use lh_connection::ConnectionError;
use lh_transport::ResumeError;
use lh_wire::WireError;

use crate::link::LinkError;
use crate::resumption::Break;

/// Reason why the loop ended without a stop.
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
    #[error(transparent)]
    Resume(#[from] ResumeViolation),
    /// Waiting for descriptors failed.
    #[error("poll: {0}")]
    Poll(#[source] io::Error),
}

/// The rule of `resume@longhaul` that the peer broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResumeViolation {
    /// A message that cannot be decoded.
    #[error(transparent)]
    Message(#[from] WireError),
    /// An acknowledgement of messages that were not sent.
    #[error(transparent)]
    Acknowledgement(#[from] ResumeError),
    /// A SESSION message on a connection that already has a session, or from a client.
    #[error("a second session on one connection")]
    SecondSession,
}

impl From<Break> for DriverError {
    fn from(cause: Break) -> Self {
        match cause {
            Break::Link(error) => Self::Link(error),
            Break::Silence => Self::KeepaliveTimeout,
        }
    }
}
