//! One direction of the path under judgement, and what all verdicts on it use.

use super::facts::{Facts, FilledQueue, OtherControl};
use super::finding::weight_of_factor;
use crate::flow::{Direction, Flow, Sender};
use crate::stats::{rate, time};

/// Gain of several connections from which something limits each of them.
pub(super) const EACH_IS_LIMITED: f64 = 1.3;
/// Part of the time from which waiting counts as the limit.
pub(super) const MUCH: f64 = 0.3;

/// One direction under judgement.
pub(super) struct JudgedDirection<'a> {
    pub(super) facts: &'a Facts,
    pub(super) direction: Direction,
    pub(super) flow: &'a Flow,
}

impl<'a> JudgedDirection<'a> {
    /// How many times faster several connections together are.
    pub(super) fn factor(&self) -> Option<f64> {
        let together = self.facts.throughput.together(self.direction)?;
        (self.flow.rate > 0.0).then(|| together / self.flow.rate)
    }

    pub(super) fn gain(&self) -> String {
        match (self.factor(), self.facts.throughput.together(self.direction)) {
            (Some(factor), Some(together)) if factor >= EACH_IS_LIMITED => format!(
                "at least {factor:.1} times: four connections together moved {} at the same path",
                rate(together)
            ),
            (None, _) => "not measured: several connections at a time were not possible".to_owned(),
            _ => "four connections together were not much faster, so the next limit is near".to_owned(),
        }
    }

    pub(super) fn weight(&self) -> f64 {
        weight_of_factor(self.factor().unwrap_or(1.0).max(EACH_IS_LIMITED))
    }

    pub(super) fn measured(&self) -> String {
        format!(
            "{} of one connection: {}, over a round trip of {}",
            self.direction.name(),
            rate(self.flow.rate),
            time(self.facts.round_trip())
        )
    }

    /// Bytes under way at the measured rate.
    pub(super) fn in_flight(&self) -> f64 {
        self.flow.rate * self.facts.round_trip()
    }

    /// Result of an upload with another congestion control; upload only.
    pub(super) fn other_control(&self) -> Option<&'a OtherControl> {
        let tried = self.facts.other_settings.congestion_control.as_ref();
        tried.filter(|_| self.direction == Direction::Up)
    }

    /// Result of an upload that fills the path's queue, where the usual ones keep it short; upload only.
    pub(super) fn filled_queue(&self) -> Option<FilledQueue> {
        self.facts.other_settings.filled_queue.filter(|_| self.direction == Direction::Up)
    }

    pub(super) fn sender(&self) -> Option<&Sender> {
        self.flow.tcp.sender.as_ref()
    }
}
