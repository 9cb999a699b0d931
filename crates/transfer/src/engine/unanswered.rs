//! Repeats requests that a server has dropped ([`crate::flow`]).
//!
//! What is read or written at an offset is asked for or sent again, fewer at a time. Anything else might have
//! been done, and fails with a message that names its file.

use crate::end::Fault;
use crate::engine::schedule::Scheduler;
use crate::task::state::State;
use crate::token::{CheckStep, FileStep, Side, Token};
use crate::{Direction, Event};

/// Limit of repetitions for parts of one file.
const MOST_TRIES: u8 = 4;

impl Scheduler<'_> {
    /// The server has answered the probe: requests that were sent before it will not be answered any more.
    pub(super) fn probe_answered(&mut self, side: Side, channel: usize) {
        let now = self.parts.progress.now;
        let Some(remote) = self.parts.ends.on_channel(side, channel).filter(|remote| !remote.lost()) else {
            return;
        };
        let dropped = remote.give_up_older(now);
        if dropped.is_empty() {
            return;
        }
        let seconds = self.parts.options.timeouts.answer.as_secs();
        let text = format!("the server has not answered {} requests in {seconds} s", dropped.len());
        let most = self.parts.flow.drops.note();
        self.parts.report.event(Event::Notice { text: format!("{text}: continuing with {most} at a time") });
        for token in dropped {
            if !self.asked_again(token) {
                self.parts.ends.answer((token, Err(Fault::unanswered(seconds))));
            }
        }
    }

    /// Repeats a READ or WRITE. Returns false if the bytes are no longer available.
    fn asked_again(&mut self, token: Token) -> bool {
        let direction = self.parts.plan.direction;
        let Token::File(key, step) = token else { return matches!(token, Token::Nothing) };
        let Some(file) = self.parts.tasks.files.get_mut(key).filter(|file| !file.faults.failed) else {
            return false;
        };
        let can = match step {
            FileStep::Read { .. } => true,
            // Data from one remote end to the other are not kept. Small files are closed right after their
            // WRITEs.
            FileStep::Write { .. } => {
                direction == Direction::Upload && matches!(file.state, State::Copying(_))
            }
            FileStep::Check(CheckStep::Range(..) | CheckStep::Tail) => true,
            _ => false,
        };
        if !can {
            return false;
        }
        // A round that lost several parts of a file counts once.
        if file.requests.tried_in != self.parts.flow.drops.times() {
            file.requests.tried_in = self.parts.flow.drops.times();
            file.requests.tries += 1;
        }
        if file.requests.tries > MOST_TRIES {
            return false;
        }
        match step {
            FileStep::Check(CheckStep::Range(side, offset)) => {
                self.parts.checks().ask_range_again(key, side, offset)
            }
            FileStep::Check(CheckStep::Tail) => self.parts.checks().ask_tail_again(key),
            _ => self.taken_over(&token),
        }
    }

    /// Moves an unanswered request to another channel. Returns true if that settles it.
    pub(in crate::engine) fn taken_over(&mut self, token: &Token) -> bool {
        match *token {
            Token::File(key, FileStep::Read { offset, len } | FileStep::Write { offset, len }) => {
                let Some(file) = self.parts.tasks.files.get_mut(key) else { return true };
                // Data that were requested twice may be in one end's sum twice.
                file.sums.lose();
                let requests = if matches!(token, Token::File(_, FileStep::Read { .. })) {
                    &mut file.requests.reads
                } else {
                    &mut file.requests.writes
                };
                *requests -= 1;
                self.parts.flow.in_flight.answered(len.into());
                self.parts.tasks.ask_again(key, offset, len);
                self.move_on(key);
                true
            }
            // It is closed with its channel, and everything that was written there was confirmed.
            Token::File(key, FileStep::CloseTarget) => {
                if let Some(file) = self.parts.tasks.files.get_mut(key) {
                    file.outstanding -= 1;
                }
                self.move_on(key);
                true
            }
            Token::Batch(key) => {
                let ended = self.parts.small_files().lost(key);
                self.batch_ended(ended);
                true
            }
            _ => false,
        }
    }
}
