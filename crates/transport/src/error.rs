//! Errors that end a connection.

use lh_resume::CountError;
use lh_wire::WireError;
use lh_wire::msg::disconnect;

/// Party at fault for a [`TransportError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The peer broke the protocol's rules, or its bytes were tampered with.
    Peer,
    /// The peer follows the rules but lacks something that we need, or disconnected.
    PeerLacks,
    /// Our caller or our configuration.
    Caller,
}

/// Error that ends a connection. `Display` is one line for a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The peer closed the connection.
    #[error("connection closed by remote host{}", if *.mid_packet { " in the middle of a packet" } else { "" })]
    Closed {
        /// True when part of a packet (or line) had arrived.
        mid_packet: bool,
    },
    /// The first line is not an SSH identification.
    #[error("peer does not speak SSH: {0}")]
    NotSsh(
        /// What is wrong with the received line, printable.
        String,
    ),
    /// The identification has no versions or no software name. OpenSSH's words.
    #[error("Bad remote protocol version identification: '{0}'")]
    BadIdentification(
        /// The received line, printable.
        String,
    ),
    /// The peer supports only SSH-1, or a version newer than 2. OpenSSH's words.
    #[error("Protocol major versions differ: 2 vs. {0}")]
    ProtocolVersion(
        /// The peer's major version.
        String,
    ),
    /// No algorithm in common.
    #[error("no matching {what} found. Their offer: {offer}")]
    NoMatch {
        /// `key exchange method`, `host key type`, `cipher`, `MAC` or `compression method`, as in OpenSSH's
        /// messages.
        what: &'static str,
        /// The peer's offer.
        offer: String,
    },
    /// A message could not be decoded.
    #[error("malformed {message}: {source}")]
    Malformed {
        /// Name of the message.
        message: &'static str,
        /// The decoding error.
        source: WireError,
    },
    /// A message arrived in a state that does not allow it.
    #[error("unexpected message type {number} {when}")]
    Unexpected {
        /// The message number.
        number: u8,
        /// The state, as the end of the error message.
        when: &'static str,
    },
    /// A packet length is out of range.
    #[error("bad packet length {length}")]
    PacketLength {
        /// The value read; random when the peer's bytes were modified in transit.
        length: u32,
    },
    /// A MAC or authentication tag is wrong.
    #[error("message authentication code incorrect")]
    BadMac,
    /// Padding shorter than 4 bytes or longer than the packet.
    #[error("corrupted padding length {0}")]
    Padding(
        /// The value read.
        u8,
    ),
    /// A packet has no message number.
    #[error("empty packet")]
    EmptyPacket,
    /// The peer's key exchange values are invalid.
    #[error("key exchange failed: {0}")]
    KeyExchange(
        /// The failed check.
        &'static str,
    ),
    /// The host key cannot be decoded or does not match the negotiated algorithm.
    #[error("bad host key: {0}")]
    HostKey(
        /// The failed check.
        &'static str,
    ),
    /// The signature over the exchange hash is wrong.
    #[error("host key signature incorrect")]
    HostKeySignature,
    /// Data cannot be decompressed, or exceeds a packet's limit when decompressed.
    #[error("decompression failed: {0}")]
    Compression(
        /// What is wrong with the data.
        &'static str,
    ),
    /// The peer's messages are legal but excessive.
    #[error("peer sends too many {0}")]
    TooMany(
        /// Kind of message or data.
        &'static str,
    ),
    /// The peer is known to corrupt or refuse a message of this length.
    #[error("message of {length} bytes not sent: this peer handles packets of up to {limit} bytes only")]
    TooLongForPeer {
        /// The message's length, bytes.
        length: usize,
        /// The longest packet, bytes.
        limit: usize,
    },
    /// A key has reached the number of packets or bytes that it may protect, and the peer does not renew it.
    #[error("key limit reached without rekeying")]
    KeyExhausted,
    /// A call that the current state does not allow.
    #[error("{0}")]
    Caller(
        /// What was wrong with the call.
        &'static str,
    ),
}

impl TransportError {
    /// Returns the `SSH_DISCONNECT_*` reason that the transport sends. `None`: the peer is gone, or does not
    /// understand packets yet.
    pub const fn disconnect_reason(&self) -> Option<u32> {
        Some(match self {
            Self::Closed { .. } | Self::NotSsh(_) | Self::BadIdentification(_) => return None,
            Self::ProtocolVersion(_) => disconnect::PROTOCOL_VERSION_NOT_SUPPORTED,
            Self::NoMatch { .. } | Self::KeyExchange(_) => disconnect::KEY_EXCHANGE_FAILED,
            Self::HostKey(_) | Self::HostKeySignature => disconnect::HOST_KEY_NOT_VERIFIABLE,
            Self::BadMac => disconnect::MAC_ERROR,
            Self::Compression(_) => disconnect::COMPRESSION_ERROR,
            Self::Caller(_) | Self::TooLongForPeer { .. } => disconnect::BY_APPLICATION,
            Self::Malformed { .. }
            | Self::Unexpected { .. }
            | Self::PacketLength { .. }
            | Self::Padding(_)
            | Self::EmptyPacket
            | Self::TooMany(_)
            | Self::KeyExhausted => disconnect::PROTOCOL_ERROR,
        })
    }

    /// Returns true for errors that an attacker or a fault on the path can cause. The other end of the
    /// session has done nothing wrong, so the session may continue over another connection.
    pub const fn is_break(&self) -> bool {
        matches!(self, Self::Closed { .. } | Self::BadMac | Self::PacketLength { .. })
    }

    /// Returns the party at fault.
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Closed { .. }
            | Self::ProtocolVersion(_)
            | Self::NoMatch { .. }
            | Self::TooLongForPeer { .. } => Fault::PeerLacks,
            Self::Caller(_) => Fault::Caller,
            _ => Fault::Peer,
        }
    }
}

/// Error of freezing a [`Transport`](crate::Transport), or of thawing it from bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreezeError {
    /// A key exchange is in progress, or the first one is not complete.
    #[error("a key exchange is in progress")]
    KeyExchange,
    /// Worker jobs are outstanding, or received packets wait to be polled.
    #[error("worker jobs or events are outstanding")]
    Jobs,
    /// Compression has state that cannot be transferred. Freeze before
    /// [`set_authenticated`](crate::Transport::set_authenticated), and negotiate only `zlib@openssh.com`.
    #[error("compression is running")]
    Compression,
    /// Messages are kept for another connection.
    #[error("unacknowledged messages are kept")]
    Retained,
    /// The bytes were written by another version.
    #[error("frozen by another version")]
    Version,
    /// The bytes were not written by `freeze`.
    #[error("malformed frozen state: {0}")]
    Malformed(
        /// The decoding error.
        #[from]
        WireError,
    ),
    /// The state names an unknown algorithm, or the keys do not match their algorithms.
    #[error("frozen state names an unknown algorithm")]
    Algorithm,
}

/// Error of resuming a session over another connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// Messages are not kept, or the connection ended in a way that a new connection cannot repair.
    #[error("the session cannot be resumed")]
    NotResumable,
    /// Worker jobs are outstanding, or a key exchange is in progress on the new connection: try again later.
    #[error("worker jobs or a key exchange are in progress")]
    Busy,
    /// The peer's count of received messages is impossible.
    #[error("{0}")]
    Count(
        /// The check that failed.
        #[from]
        CountError,
    ),
    /// A kept packet could not be opened.
    #[error("a kept packet could not be opened")]
    Lost,
}

impl ResumeError {
    /// Returns true when no other connection can carry the session either: messages to be sent again are
    /// lost, or the peer's count breaks a rule.
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Busy)
    }
}
