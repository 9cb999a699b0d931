//! An additional channel, or the connection it is on, is gone: its work goes to the others.
//!
//! What was asked for is asked for again elsewhere, and what was sent without an answer is sent again: it may
//! be written twice then, at the same place and with the same bytes. What the server has summed up there is
//! lost, so such a file is compared by digests in the end, where it is to be compared and the server has
//! them.

use std::time::Instant;

use crate::end::{Fault, FaultKind};
use crate::engine::Engine;
use crate::task::handles::OnChannel;

impl Engine {
    /// An additional channel is gone. What was asked for or sent on it without an answer goes over the
    /// others.
    pub fn channel_lost(&mut self, channel: usize, reason: &str, now: Instant) {
        self.one_channel_lost(channel, reason, now);
        self.do_file_work();
    }

    pub(super) fn one_channel_lost(&mut self, channel: usize, reason: &str, now: Instant) {
        self.parts.progress.now = now;
        let Some(remote) = self.parts.ends.channels.standing(channel) else { return };
        let tokens = remote.fail(reason);
        if let Some(unfinished) = self.parts.ends.channels.unfinished(channel) {
            let half_sent = unfinished.take();
            if let Some(file) = half_sent.and_then(|write| self.parts.tasks.files.get_mut(write.key())) {
                file.requests.half_sent -= 1;
            }
        }
        for file in self.parts.tasks.files.values_mut() {
            if let Some(on_channel) = file.handles.on_channels.get_mut(channel - 1)
                && matches!(std::mem::replace(on_channel, OnChannel::Without), OnChannel::Open(_))
            {
                file.sums.lose();
            }
        }
        for token in tokens {
            if !self.scheduler().taken_over(&token) {
                let fault = Fault { kind: FaultKind::Other, text: reason.to_owned() };
                self.parts.ends.answer((token, Err(fault)));
            }
        }
        self.scheduler().handle_answers();
    }

    pub(in crate::engine) fn channels_lost(&mut self, reason: &str, now: Instant) {
        for channel in 1..=self.parts.ends.channels.count() {
            self.one_channel_lost(channel, reason, now);
        }
    }
}
