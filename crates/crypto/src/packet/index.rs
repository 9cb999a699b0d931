//! Direction and position of a packet, which all suites share.

/// Length of the length field of every packet, bytes.
pub(super) const LENGTH_LEN: usize = 4;

/// Direction of a [`PacketKey`](crate::PacketKey).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Seals packets that we send.
    Seal,
    /// Opens packets that we receive.
    Open,
}

/// Position of a packet in its direction: all inputs that a suite may need as nonce or counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketIndex {
    /// The sequence number (RFC 4253 section 6.4); wraps.
    pub seq: u32,
    /// Number of packets sealed before this one under the same key, that is, since NEWKEYS.
    pub invocation: u64,
    /// Sum of [`PacketKey::encrypted_len`](crate::PacketKey::encrypted_len) of the packets before this one
    /// under the same key.
    pub offset: u64,
}
