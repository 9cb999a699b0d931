//! Which connections of a copy have something to do because of what happened on another one. Pure.
//!
//! Each connection has a loop on a thread of its own, and the engine is shared. A loop runs when something
//! came on its connection. Where an answer on one connection makes something possible on another one, the
//! other loop is woken: else it sleeps for ever.

use crate::Engine;
use crate::channels::Turn;

/// Reasons of the last wake-ups.
#[derive(Debug, Default)]
pub struct Wakes {
    turn: Option<Turn>,
    /// Bytes of requests that waited on each channel then.
    queued: Vec<usize>,
}

impl Wakes {
    /// Returns those of `channels`, all to the end that has several, that have something to do that they did
    /// not have at the last call; and the first channel, which alone begins files, while some may be begun.
    pub fn channels_to_wake(
        &mut self,
        engine: &mut Engine,
        channels: impl IntoIterator<Item = usize>,
    ) -> Vec<usize> {
        let turn = engine.turn();
        let changed = self.turn.replace(turn) != Some(turn);
        let begins = engine.may_begin_work();
        let has_more = |&channel: &usize| {
            let queued = engine.queue_of(channel);
            if self.queued.len() <= channel {
                self.queued.resize(channel + 1, 0);
            }
            let before = self.queued.get_mut(channel).map_or(0, |seen| std::mem::replace(seen, queued));
            changed || queued > before || (begins && channel == 0)
        };
        channels.into_iter().filter(has_more).collect()
    }
}
