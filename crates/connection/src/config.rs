//! Configuration of a [`Connection`](crate::Connection) and of its channels.

use lh_wire::peer::{LARGE_CHANNEL_PACKET, Limits, STOCK_CHANNEL_PACKET};

const MIB: u32 = 1 << 20;

/// Initial size and growth limit of a channel's receive window.
///
/// The window starts at OpenSSH's 2 MiB, because very old peers fail with a larger value in CHANNEL_OPEN. It
/// grows while the peer waits for window credit, and not for our sink or the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowPolicy {
    /// Window granted in the open or its confirmation, bytes. At least 1; 0 is replaced by the size of one
    /// packet.
    pub initial: u32,
    /// Largest size of the window, bytes. A cap below `initial` disables growth.
    ///
    /// OpenSSH senders since 8.9 become slower with windows beyond about 15 MiB. For such senders a smaller
    /// window is found by measuring; the cap exists for users who want to set it.
    pub cap: u32,
}

impl WindowPolicy {
    /// Policy for channels that may carry bulk data: 2 MiB, growing to what the path needs and
    /// [`Config::growth_budget`] permits.
    pub const BULK: Self = Self { initial: 2 * MIB, cap: u32::MAX };

    /// Returns a window of constant size.
    pub const fn fixed(bytes: u32) -> Self {
        Self { initial: bytes, cap: bytes }
    }

    /// Returns the policy that a user configured for bulk channels. `growing`: the window adapts to the path.
    /// `size`: the cap of a growing window, or the size of a fixed one, bytes.
    pub fn configured(growing: bool, size: Option<u32>) -> Self {
        match (growing, size) {
            (true, None) => Self::BULK,
            (true, Some(size)) => Self { initial: Self::BULK.initial.min(size), cap: size },
            (false, size) => Self::fixed(size.unwrap_or(Self::BULK.initial)),
        }
    }

    /// Returns this policy with another cap.
    #[must_use]
    pub const fn with_cap(self, cap: u32) -> Self {
        Self { cap, ..self }
    }
}

impl Default for WindowPolicy {
    fn default() -> Self {
        Self::BULK
    }
}

/// Limits that we announce for one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelOptions {
    /// Receive window.
    pub window: WindowPolicy,
    /// Largest data accepted in one packet, bytes, unless [`Config::max_receive_packet`] is smaller. Data in
    /// a larger packet ends the connection.
    pub max_packet: u32,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self { window: WindowPolicy::BULK, max_packet: LARGE_CHANNEL_PACKET }
    }
}

/// Configuration for all channels of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Limit of simultaneous channels of both sides, at most 16384 (our channel numbers are below that).
    /// Further opens of the peer are refused with RESOURCE_SHORTAGE.
    pub max_channels: usize,
    /// Window policy that replaces [`WindowPolicy::BULK`], for users who fix or cap windows. Other policies
    /// are unaffected.
    pub bulk_window: WindowPolicy,
    /// Bytes by which all windows together may *grow* beyond their initial sizes: the memory that a slow sink
    /// may cost.
    pub growth_budget: u64,
    /// Largest data per packet that we announce, bytes, regardless of a channel's options. It protects
    /// against peers that handle larger packets wrongly and would send corrupted data.
    pub max_receive_packet: u32,
    /// Largest data per packet that we send, bytes, regardless of the peer's limit. A peer that announces
    /// more than any transport can carry (256 KiB) gets 32 KiB, which RFC 4253 section 6.1 guarantees.
    pub max_send_packet: u32,
    /// Limit of unanswered requests of the peer, per channel and for global requests. More end the
    /// connection.
    pub max_unanswered: u32,
}

impl Config {
    /// Returns this configuration with the packet sizes that a peer with these limits is known to handle. The
    /// default is what the RFCs oblige every peer to accept.
    #[must_use]
    pub const fn for_peer(self, limits: Limits) -> Self {
        let (received, sent) = (limits.received_channel_packet, limits.sent_channel_packet);
        Self { max_receive_packet: received, max_send_packet: sent, ..self }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_channels: 16384,
            bulk_window: WindowPolicy::BULK,
            growth_budget: 4 << 30,
            max_receive_packet: STOCK_CHANNEL_PACKET,
            max_send_packet: STOCK_CHANNEL_PACKET,
            max_unanswered: 1024,
        }
    }
}
