//! Totals over all channels, for statistics.

use crate::{ChannelId, Connection};

/// Sums over the existing channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of channels.
    pub channels: u64,
    /// Sum of our receive windows, bytes.
    pub receive_window: u64,
    /// Bytes that the peer's windows permit us to send now.
    pub send_credit: u64,
}

impl Connection {
    /// Returns the bytes of data that a channel has received and sent since it opened; `None` for a channel
    /// that is gone.
    pub fn moved(&self, id: ChannelId) -> Option<(u64, u64)> {
        let channel = self.channels.get(id.number() as usize)?.as_ref()?;
        Some((channel.receive.received(), channel.send.sent))
    }

    /// Returns the bytes of data that the open channels have received and sent since they opened.
    pub fn total_moved(&self) -> u64 {
        let moved = |channel: &crate::channel::Channel| channel.receive.received() + channel.send.sent;
        self.channels.iter().flatten().map(moved).fold(0, u64::wrapping_add)
    }

    /// Iterates over the existing channels, in the order of their numbers.
    pub fn channel_ids(&self) -> impl Iterator<Item = ChannelId> {
        let numbers = self.channels.iter().enumerate().filter(|(_, channel)| channel.is_some());
        numbers.filter_map(|(number, _)| u32::try_from(number).ok().map(ChannelId))
    }

    /// Computes the [`Totals`].
    pub fn totals(&self) -> Totals {
        self.channels.iter().flatten().fold(Totals::default(), |sum, channel| Totals {
            channels: sum.channels + 1,
            receive_window: sum.receive_window + channel.receive.size(),
            send_credit: sum.send_credit + channel.send.left,
        })
    }
}
