//! `ChannelTimeout global=N`: all channels are closed when none has carried anything for so long.

use std::time::{Duration, Instant};

use lh_connection::ChannelId;

use crate::cx::ControlCx;

/// Watches the channels of a connection; part of a [`Control`](crate::Control).
#[derive(Debug)]
pub struct IdleChannels {
    limit: Duration,
    /// How many channels there were, and what they had moved, when that was looked at last.
    seen: (usize, u64),
    /// Since when that has not changed.
    since: Instant,
    /// Channels may be idle too long.
    armed: bool,
}

impl IdleChannels {
    /// Watches from now on.
    pub const fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, seen: (0, 0), since: now, armed: false }
    }

    /// Looks at the channels; for [`Control::before_wait`](crate::Control::before_wait).
    pub fn before_wait(&mut self, cx: &mut ControlCx<'_>) {
        let (now, channels) = (cx.now(), cx.channels());
        let seen = (channels, cx.connection().moved_in_all());
        if seen != self.seen {
            self.seen = seen;
            self.since = now;
            self.armed = channels > 0;
        }
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.armed.then(|| self.since + self.limit)
    }

    /// Closes all channels if they have been idle for so long; returns how many there were.
    pub fn on_timeout(&mut self, cx: &mut ControlCx<'_>) -> usize {
        if self.next_deadline().is_none_or(|deadline| deadline > cx.now()) {
            return 0;
        }
        // What is being closed counts no more, until something moves again.
        self.armed = false;
        let ids: Vec<ChannelId> = cx.connection().channel_ids().collect();
        for id in &ids {
            if let Some(mut channel) = cx.channel(*id) {
                channel.close();
            }
        }
        ids.len()
    }
}
