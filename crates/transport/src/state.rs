//! Parts of a connection's state that more than one module changes: its phase, the progress of a key exchange,
//! messages that wait.

use crate::epoch::RawKeys;
use crate::kex;
use crate::negotiate::Agreement;
use crate::{TransportError, Unencrypted};

/// Message numbers of the connection protocol (RFC 4250 section 4.1.2).
pub(crate) const CONNECTION: std::ops::RangeInclusive<u8> = 80..=127;

/// Phase of a connection.
pub(crate) enum Phase {
    /// The peer's identification has not arrived.
    Identification,
    /// Binary packets.
    Packets,
    /// One side sent DISCONNECT.
    Ended,
    /// The connection ended with an error.
    Failed(TransportError),
}

/// State of the key exchange.
pub(crate) enum KexState {
    /// No exchange is in progress.
    Idle,
    /// Our KEXINIT is sent. Packets that the peer sent before it saw our KEXINIT are still accepted.
    InitSent {
        ours: Vec<u8>,
        /// The unencrypted ciphers that our KEXINIT offers.
        unencrypted: Unencrypted,
    },
    /// Both KEXINITs are exchanged; our NEWKEYS is not sent.
    Running { state: Box<kex::State>, agreement: Box<Agreement>, skip_guess: bool },
    /// Our NEWKEYS is sent; the peer's has not arrived.
    ExpectNewKeys { keys: Box<RawKeys>, agreement: Box<Agreement> },
}

/// A payload that waits for the end of a key exchange.
pub(crate) struct Held {
    pub(crate) payload: Vec<u8>,
    /// True when queued after authentication, which matters for delayed compression.
    pub(crate) authenticated: bool,
}

/// Channel messages kept until the user is authenticated.
#[derive(Debug, Default)]
pub(crate) struct Early {
    pub(crate) payloads: Vec<Vec<u8>>,
    /// Number of payloads that were sent behind the last request.
    pub(crate) sent: usize,
}
