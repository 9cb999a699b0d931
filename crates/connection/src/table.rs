//! The table of channels: numbers, and the channels that have them.

use crate::channel::Channel;
use crate::{ChannelId, Connection};

impl Connection {
    /// Allocates the lowest free number.
    pub(crate) fn allocate(&mut self, channel: Channel) -> Option<ChannelId> {
        if self.count >= self.config.max_channels {
            return None;
        }
        self.count += 1;
        let id = match self.free.pop_first() {
            Some(id) => id,
            None => {
                self.channels.push(None);
                u32::try_from(self.channels.len() - 1).ok()?
            }
        };
        *self.channels.get_mut(id as usize)? = Some(channel);
        Some(ChannelId(id))
    }

    pub(crate) fn free(&mut self, id: ChannelId) {
        if let Some(channel) = self.channels.get_mut(id.0 as usize).and_then(Option::take) {
            self.growth_left += channel.receive.grown();
            self.count -= 1;
            self.free.insert(id.0);
        }
    }

    pub(crate) fn get(&self, id: ChannelId) -> Option<&Channel> {
        self.channels.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.channels.get_mut(id.0 as usize)?.as_mut()
    }

    /// Returns the number of channels in use, including those that are being opened or closed.
    pub const fn channel_count(&self) -> usize {
        self.count
    }
}
