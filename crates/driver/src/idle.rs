//! `ChannelTimeout global=N`: closes all channels when none has carried data for N seconds.

use std::time::{Duration, Instant};

use lh_connection::ChannelId;

use crate::handler::ControlCx;

/// Watches the channels of a connection; part of a [`Control`](crate::Control).
#[derive(Debug)]
pub struct IdleChannels {
    limit: Duration,
    /// Number of channels and bytes moved, at the last change.
    seen: (usize, u64),
    /// Time of the last change.
    since: Instant,
    /// There are channels, and the timer runs.
    armed: bool,
}

impl IdleChannels {
    /// Starts watching at `now`.
    pub const fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, seen: (0, 0), since: now, armed: false }
    }

    /// Checks for activity; call it from [`Control::before_wait`](crate::Control::before_wait).
    pub fn before_wait(&mut self, cx: &mut ControlCx<'_>) {
        let (now, channels) = (cx.now(), cx.handler_count());
        let seen = (channels, cx.total_moved());
        if seen != self.seen {
            self.seen = seen;
            self.since = now;
            self.armed = channels > 0;
        }
    }

    /// Time at which to call [`on_timeout`](Self::on_timeout).
    pub fn next_deadline(&self) -> Option<Instant> {
        self.armed.then(|| self.since + self.limit)
    }

    /// Closes all channels if they have been idle for the limit. Returns how many there were.
    pub fn on_timeout(&mut self, cx: &mut ControlCx<'_>) -> usize {
        if self.next_deadline().is_none_or(|deadline| deadline > cx.now()) {
            return 0;
        }
        // Stays off until data moves again, so that closing channels are not closed twice.
        self.armed = false;
        let ids: Vec<ChannelId> = cx.channel_ids().collect();
        for id in &ids {
            if let Some(mut channel) = cx.channel(*id) {
                channel.close();
            }
        }
        ids.len()
    }
}
