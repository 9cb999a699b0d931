//! An additional channel, or the connection it is on, is gone: its work goes to the others.
//!
//! What was asked for is asked for again elsewhere, and what was sent without an answer is sent again: it may
//! be written twice then, at the same place and with the same bytes. What the server has summed up there is
//! lost, so such a file is compared by digests in the end, where it is to be compared and the server has
//! them.
//!
//! A small file whose [home](crate::channels::homes) it was is copied again over another channel: which of
//! its requests the server has carried out is not known.

use std::time::Instant;

use crate::end::{Fault, FaultKind};
use crate::engine::Engine;
use crate::table::Key;
use crate::task::handles::OnChannel;
use crate::token::{AttributeSubject, FileStep, PlaceStep, Token};

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
        let over = self.parts.report.summary.lost;
        let homeless = self.parts.ends.homes.leave(channel);
        if !over {
            homeless.iter().for_each(|&key| self.undo_homeless(key, channel, reason));
        }
        for token in tokens {
            let of_homeless = |key: &Key| homeless.binary_search(key).is_ok();
            match token {
                Token::File(key, step)
                    if !over && of_homeless(&key) && !matches!(step, FileStep::Write { .. }) =>
                {
                    self.forget_answer(key, matches!(step, FileStep::Place(PlaceStep::Open)));
                }
                Token::Preserve(AttributeSubject::File(key), _) if !over && of_homeless(&key) => {
                    self.forget_answer(key, false);
                }
                _ if self.scheduler().taken_over(&token) => {}
                _ => {
                    let kind = if over { FaultKind::Lost } else { FaultKind::Other };
                    self.parts.ends.answer((token, Err(Fault { kind, text: reason.to_owned() })));
                }
            }
        }
        homeless.iter().for_each(|&key| self.scheduler().move_on(key));
        self.scheduler().handle_answers();
    }

    /// The channel that this small file went over is gone.
    fn undo_homeless(&mut self, key: Key, channel: usize, reason: &str) {
        let Some(file) = self.parts.tasks.files.get_mut(key) else { return };
        // The server has closed it with the channel.
        file.handles.target.take_if(|handle| handle.channel() == channel);
        file.faults.tainted = true;
        self.parts.copy_again(key, reason);
    }

    /// No answer will come. `made`: the question was to make the part file, which may be there now.
    fn forget_answer(&mut self, key: Key, made: bool) {
        if let Some(file) = self.parts.tasks.files.get_mut(key) {
            file.outstanding -= 1;
            file.place.there |= made;
        }
        self.scheduler().move_on(key);
    }

    pub(in crate::engine) fn channels_lost(&mut self, reason: &str, now: Instant) {
        for channel in 1..=self.parts.ends.channels.count() {
            self.one_channel_lost(channel, reason, now);
        }
    }
}
