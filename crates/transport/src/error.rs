//! Why a connection cannot go on.

use lh_wire::WireError;
use lh_wire::msg::disconnect;

/// Who is to blame for a [`TransportError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The peer broke the protocol's rules (or someone tampered with its bytes).
    Peer,
    /// The peer is honest but lacks something we need, or went away.
    PeerLacks,
    /// Our caller or our configuration.
    Caller,
}

/// Why a connection cannot go on. `Display` is one line for a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The peer closed the connection.
    #[error("connection closed by remote host{}", if *.mid_packet { " in the middle of a packet" } else { "" })]
    Closed {
        /// Part of a packet (or line) had arrived.
        mid_packet: bool,
    },
    /// The first line is not SSH's.
    #[error("peer does not speak SSH: {0}")]
    NotSsh(
        /// What was wrong with what it sent, printable.
        String,
    ),
    /// SSH-1 only, or something newer than we know.
    #[error("protocol major versions differ: 2 vs. {0}")]
    ProtocolVersion(
        /// The peer's version, printable.
        String,
    ),
    /// No algorithm in common.
    #[error("no matching {what} found. Their offer: {offer}")]
    NoMatch {
        /// `key exchange method`, `host key type`, `cipher`, `MAC`, `compression method`: OpenSSH's words.
        what: &'static str,
        /// The peer's list.
        offer: String,
    },
    /// A message could not be read.
    #[error("malformed {message}: {source}")]
    Malformed {
        /// Which message.
        message: &'static str,
        /// What is wrong with it.
        source: WireError,
    },
    /// A message came when it must not.
    #[error("unexpected message type {number} {when}")]
    Unexpected {
        /// The message number.
        number: u8,
        /// Where we were.
        when: &'static str,
    },
    /// A packet length that cannot be.
    #[error("bad packet length {length}")]
    PacketLength {
        /// The value read, which is noise when the peer's bytes were changed on the way.
        length: u32,
    },
    /// A MAC or authentication tag that is wrong.
    #[error("message authentication code incorrect")]
    BadMac,
    /// Padding shorter than 4 bytes or longer than the packet.
    #[error("corrupted padding length {0}")]
    Padding(
        /// The value read.
        u8,
    ),
    /// A packet without a message number.
    #[error("empty packet")]
    EmptyPacket,
    /// The peer's part of the key exchange does not compute.
    #[error("key exchange failed: {0}")]
    KeyExchange(
        /// What did not compute.
        &'static str,
    ),
    /// The host key cannot be read or does not match what was agreed on.
    #[error("bad host key: {0}")]
    HostKey(
        /// Why.
        &'static str,
    ),
    /// The signature over the exchange hash is wrong.
    #[error("host key signature incorrect")]
    HostKeySignature,
    /// Data that does not decompress, or decompresses to more than a packet may hold.
    #[error("decompression failed: {0}")]
    Compression(
        /// Why.
        &'static str,
    ),
    /// Legal but abusive: too many of something.
    #[error("peer sends too many {0}")]
    TooMany(
        /// Of what.
        &'static str,
    ),
    /// A message of ours that this peer is known to corrupt, or to refuse.
    #[error("message of {length} bytes not sent: the peer is right with packets of up to {limit} bytes only")]
    TooLongForPeer {
        /// The message's length, bytes.
        length: usize,
        /// The longest packet, bytes.
        limit: usize,
    },
    /// A key has reached the number of packets or bytes it may protect and the peer does not renew it.
    #[error("key limit reached without rekeying")]
    KeyExhausted,
    /// The caller did something that the state does not allow.
    #[error("{0}")]
    Caller(
        /// What.
        &'static str,
    ),
}

impl TransportError {
    /// The `SSH_DISCONNECT_*` reason the transport sends; `None` when there is nobody left to tell or the peer
    /// does not understand packets yet.
    pub const fn disconnect_reason(&self) -> Option<u32> {
        Some(match self {
            Self::Closed { .. } | Self::NotSsh(_) => return None,
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

    /// By whose fault.
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

/// Why frozen bytes could not be made, or could not be turned into a [`Transport`](crate::Transport) again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FreezeError {
    /// A key exchange is under way, or the first one has not been done.
    #[error("a key exchange is under way")]
    KeyExchange,
    /// Packets are with workers, or wait to be polled.
    #[error("packets are under way")]
    Jobs,
    /// Compression has state that cannot be carried over. Freeze before
    /// [`set_authenticated`](crate::Transport::set_authenticated) and agree on `zlib@openssh.com` only.
    #[error("compression is running")]
    Compression,
    /// Written by another version.
    #[error("frozen by another version")]
    Version,
    /// Bytes that no `freeze` wrote.
    #[error("malformed frozen state: {0}")]
    Malformed(
        /// What is wrong.
        #[from]
        WireError,
    ),
    /// A name in it is not known here, or keys do not fit.
    #[error("frozen state names an unknown algorithm")]
    Algorithm,
}
