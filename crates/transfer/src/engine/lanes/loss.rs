//! An additional channel, or the connection it is on, is gone: its work goes to the others.
//!
//! What was asked for is asked for again elsewhere, and what was sent without an answer is sent again: it may be written twice then, at the
//! same place and with the same bytes. What the server has summed up there is lost, so such a file is compared by
//! digests in the end, where it is to be compared and the server has them.

use std::time::Instant;

use crate::end::{Fault, FaultKind};
use crate::engine::Engine;
use crate::task::stripes::Stripe;
use crate::token::{FileStep, Token};

impl Engine {
    /// An additional channel is gone. What was asked for or sent on it without an answer goes over the others.
    pub fn lane_lost(&mut self, lane: usize, reason: &str, now: Instant) {
        self.one_lane_lost(lane, reason, now);
        self.do_file_work();
    }

    pub(super) fn one_lane_lost(&mut self, lane: usize, reason: &str, now: Instant) {
        self.progress.now = now;
        let Some(remote) = self.channels.lane(lane).filter(|remote| !remote.lost()) else { return };
        let tokens = remote.fail(reason);
        if let Some(unfinished) = self.channels.unfinished(&mut self.tasks.unfinished, lane) {
            let half_sent = unfinished.take();
            if let Some(file) = half_sent.and_then(|write| self.tasks.files.get_mut(write.key())) {
                file.mid_write -= 1;
            }
        }
        for file in self.tasks.files.values_mut() {
            if let Some(stripe) = file.stripes.get_mut(lane - 1)
                && matches!(std::mem::replace(stripe, Stripe::Without), Stripe::Open(_))
            {
                file.lose_sum();
            }
        }
        for token in tokens {
            if !self.taken_over(&token) {
                let fault = Fault { kind: FaultKind::Other, text: reason.to_owned() };
                self.ends.answer((token, Err(fault)));
            }
        }
        self.handle_answers();
    }

    /// What will not be answered there can be done on another channel. True when that is settled.
    pub(in crate::engine) fn taken_over(&mut self, token: &Token) -> bool {
        match *token {
            Token::File(key, FileStep::Read { offset, len } | FileStep::Write { offset, len }) => {
                let Some(file) = self.tasks.files.get_mut(key) else { return true };
                // Of what was asked twice, the sums of the two ends may differ.
                file.lose_sum();
                let requests = if matches!(token, Token::File(_, FileStep::Read { .. })) {
                    &mut file.reads
                } else {
                    &mut file.writes
                };
                *requests -= 1;
                self.flow.answered(len.into());
                self.tasks.ask_again(key, offset, len);
                self.move_on(key);
                true
            }
            // It is closed now, and everything that was written there had been confirmed.
            Token::File(key, FileStep::CloseTarget) => {
                if let Some(file) = self.tasks.files.get_mut(key) {
                    file.outstanding -= 1;
                }
                self.move_on(key);
                true
            }
            Token::Batch(key) => {
                self.batch_lost(key);
                true
            }
            _ => false,
        }
    }

    pub(in crate::engine) fn lanes_lost(&mut self, reason: &str, now: Instant) {
        for lane in 1..=self.channels.all.len() {
            self.one_lane_lost(lane, reason, now);
        }
    }
}
