//! Which connections of a copy have something to do because of what happened on another one. Pure.
//!
//! Each connection has a loop on a thread of its own, and the engine is shared. A loop runs when something came
//! on its connection. What an answer on one connection makes possible on another one, the other loop must hear
//! of: else it sleeps for ever.

use crate::Engine;
use crate::channels::Turn;

/// What the connections were last woken for.
#[derive(Debug, Default)]
pub struct Wakes {
    turn: Option<Turn>,
    /// Bytes of requests that waited on each channel then.
    queued: Vec<usize>,
}

impl Wakes {
    /// Returns those of `lanes`, channels to the end that there may be several to, that have something to do
    /// that they did not have at the last call.
    pub fn lanes(&mut self, engine: &mut Engine, lanes: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let turn = engine.turn();
        let changed = self.turn.replace(turn) != Some(turn);
        let has_more = |&lane: &usize| {
            let queued = engine.lane_queue(lane);
            if self.queued.len() <= lane {
                self.queued.resize(lane + 1, 0);
            }
            let before = self.queued.get_mut(lane).map_or(0, |seen| std::mem::replace(seen, queued));
            changed || queued > before
        };
        lanes.into_iter().filter(has_more).collect()
    }
}
