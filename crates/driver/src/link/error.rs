//! Why a link failed, and how far the connection had come.

use std::io;

use lh_transport::TransportError;

/// Progress of a connection, for error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The peer's identification line had not arrived (OpenSSH: `kex_exchange_identification: …`).
    Identification,
    /// The first key exchange was not complete.
    KeyExchange,
    /// Keys were in use.
    Established,
}

/// Why a link failed.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The peer closed the connection.
    #[error("connection closed by remote host")]
    Closed {
        /// Progress at that time.
        stage: Stage,
    },
    /// The socket failed; this includes a reset by the peer.
    #[error("{source}")]
    Io {
        /// Progress at that time.
        stage: Stage,
        /// The kernel's error.
        source: io::Error,
    },
    /// The protocol failed; the peer has been sent the reason where that makes sense.
    #[error(transparent)]
    Transport(TransportError),
    /// No event came before the deadline.
    #[error("timed out")]
    TimedOut,
}
