//! What a [`Connection`](crate::Connection) and each channel are told before they start.

use lh_wire::peer::{LARGE_CHANNEL_PACKET, Limits, STOCK_CHANNEL_PACKET};

const MIB: u32 = 1 << 20;

/// How the receive window of a channel starts and how far it may grow.
///
/// It starts at OpenSSH's 2 MiB, because very old peers break on more in the open itself, and doubles while the
/// window (not our sink, not the network) is what the peer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowPolicy {
    /// Window granted in the open or its confirmation, bytes. At least 1; a 0 is taken as one packet.
    pub initial: u32,
    /// The window never grows beyond this, bytes. A cap below `initial` means: no growth.
    ///
    /// Where a large window makes the sender slower (OpenSSH's from 8.9 on, beyond about 15 MiB), a smaller one is found by
    /// measuring; a cap is for people who want to set it.
    pub cap: u32,
}

impl WindowPolicy {
    /// Everything that may carry bulk: 2 MiB, growing to what the path holds and [`Config::growth_budget`] allows.
    pub const BULK: Self = Self { initial: 2 * MIB, cap: u32::MAX };

    /// A window that stays as it is.
    pub const fn fixed(bytes: u32) -> Self {
        Self { initial: bytes, cap: bytes }
    }

    /// For everything that may carry bulk, as a user has it: `growing` with the path or not, and with a `size` to end at, or
    /// to have where it does not grow.
    pub fn configured(growing: bool, size: Option<u32>) -> Self {
        match (growing, size) {
            (true, None) => Self::BULK,
            (true, Some(size)) => Self { initial: Self::BULK.initial.min(size), cap: size },
            (false, size) => Self::fixed(size.unwrap_or(Self::BULK.initial)),
        }
    }

    /// The same start with another cap.
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

/// What we tell the peer about one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelOptions {
    /// Receive window.
    pub window: WindowPolicy,
    /// Largest data we take in one packet, bytes, where [`Config::max_receive_packet`] allows as much. Data
    /// in a larger packet ends the connection.
    pub max_packet: u32,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self { window: WindowPolicy::BULK, max_packet: LARGE_CHANNEL_PACKET }
    }
}

/// What holds for all channels of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Channels at a time, both sides' together. At most 16384 (the numbers we use are below that). Opens of the
    /// peer beyond it are refused here with RESOURCE_SHORTAGE.
    pub max_channels: usize,
    /// What a channel with [`WindowPolicy::BULK`] gets. For users who want to fix or cap windows; other policies stand.
    pub bulk_window: WindowPolicy,
    /// Bytes by which all windows together may *grow* beyond their initial sizes: the memory a slow sink can cost.
    pub growth_budget: u64,
    /// Largest data in one packet that the peer may be told we take, whatever a channel's options say: a peer
    /// that has a fault with larger ones would send us what it has not.
    pub max_receive_packet: u32,
    /// Largest data we put into one packet, whatever the peer says it takes. A peer that says it takes more than any
    /// transport does (256 KiB) has not thought about it, and gets 32 KiB, which RFC 4253 section 6.1 promises.
    pub max_send_packet: u32,
    /// Requests of the peer that wait for the owner's answer, per channel and globally; more end the connection.
    pub max_unanswered: u32,
}

impl Config {
    /// The same with packets as large as the peer with these limits is known to be right with. Without this
    /// they are what the RFCs oblige every peer to take.
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
