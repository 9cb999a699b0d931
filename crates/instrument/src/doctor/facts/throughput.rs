//! Transfers of both directions, and those with another setting that they are compared with.

use crate::flow::{Direction, Flow};

/// Transfers of both directions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Throughput {
    pub(crate) up: DirectionThroughput,
    pub(crate) down: DirectionThroughput,
    /// Rate limit that the configuration asks for, for what this machine sends, bytes/s.
    pub(crate) rate_limit: Option<f64>,
    /// Transfers with and without a DSCP mark.
    pub(crate) marks: Vec<Mark>,
    /// Why the transfers broke off, in the words of the error.
    pub(crate) broken: Option<String>,
}

/// Transfers of one direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirectionThroughput {
    /// Over one connection.
    pub(crate) flow: Option<Flow>,
    /// Rate of several connections together, bytes/s.
    pub(crate) together: Option<f64>,
    /// What these connections lost, unless a full queue has dropped it.
    pub(crate) lost_together: Option<Losses>,
}

/// Segments that were sent, and those of them that were sent again.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Losses {
    pub(crate) segments: f64,
    pub(crate) resent: f64,
}

impl Losses {
    /// Share of the segments that was sent again.
    pub(crate) fn part(self) -> f64 {
        self.resent / self.segments.max(1.0)
    }
}

impl Throughput {
    const fn of(&self, direction: Direction) -> &DirectionThroughput {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    pub(crate) const fn of_mut(&mut self, direction: Direction) -> &mut DirectionThroughput {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }

    /// The transfer of this direction over one connection.
    pub(crate) const fn flow(&self, direction: Direction) -> Option<&Flow> {
        self.of(direction).flow.as_ref()
    }

    /// The transfers over one connection that were made.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Flow> {
        Direction::BOTH.into_iter().filter_map(|direction| self.flow(direction))
    }

    /// The transfer of this direction over one connection, where it has enough samples for a verdict.
    pub(crate) fn significant(&self, direction: Direction) -> Option<&Flow> {
        self.flow(direction).filter(|flow| flow.is_significant())
    }

    /// Rate of several connections together, bytes/s.
    pub(crate) const fn together(&self, direction: Direction) -> Option<f64> {
        self.of(direction).together
    }

    /// What several connections together lost, unless a full queue has dropped it.
    pub(crate) const fn lost_together(&self, direction: Direction) -> Option<Losses> {
        self.of(direction).lost_together
    }

    /// Rate of one connection, bytes/s; 0 where it was not measured.
    pub(crate) fn rate(&self, direction: Direction) -> f64 {
        self.flow(direction).map_or(0.0, |flow| flow.rate)
    }

    /// Highest rate of a direction, with one connection or several, bytes/s.
    pub(crate) fn best_rate(&self, direction: Direction) -> Option<f64> {
        let one = self.flow(direction).map(|flow| flow.rate);
        [one, self.together(direction)].into_iter().flatten().max_by(f64::total_cmp)
    }
}

/// Transfers with and without a DSCP mark, in turns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    pub(crate) direction: Direction,
    /// The type-of-service byte, where it is known.
    pub(crate) service: Option<u8>,
    /// The sessions that carry it.
    pub(crate) used_for: &'static str,
    /// Name of the transfers without it.
    pub(crate) others: &'static str,
    /// Rates with the mark and without it, bytes/s.
    pub(crate) with: Vec<f64>,
    pub(crate) without: Vec<f64>,
}

/// Uploads with another setting, each where the one in use may be the limit.
#[derive(Debug, Clone, Default)]
pub(crate) struct OtherSettings {
    /// With another cipher, where the cipher may be the limit.
    pub(crate) cipher: Option<OtherCipher>,
    /// With another congestion control, where segments are lost.
    pub(crate) congestion_control: Option<OtherControl>,
    /// Rate with compression, where the configuration asks for it, bytes/s. The other transfers are without.
    pub(crate) compressed: Option<f64>,
    /// Rate without a limit of the client's for exchanging keys again, where they are exchanged often,
    /// bytes/s.
    pub(crate) without_rekeys: Option<f64>,
    /// Below the rate above which segments seem to be dropped.
    pub(crate) below_policer: Option<BelowPolicer>,
    /// With a congestion control that fills the path's queue, where the one in use keeps it short.
    pub(crate) filled_queue: Option<FilledQueue>,
}

/// An upload with a congestion control that fills the queue of the path until it drops segments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FilledQueue {
    pub(crate) control: &'static str,
    /// The round trip with a full queue, seconds.
    pub(crate) round_trip: f64,
}

/// Result of asking the server for another cipher.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OtherCipher {
    /// The rate of an upload with it, bytes/s.
    Measured { name: String, rate: f64 },
    /// The server does not offer it.
    Refused { name: String },
}

/// Result of asking the system for another congestion control.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OtherControl {
    /// The rate of an upload with it, bytes/s, and the receive window that held that upload back.
    Measured { name: String, rate: f64, full_window: Option<FullWindow> },
    /// The system kept its own: a route with `congctl lock` overrules programs.
    Overruled { name: String },
}

/// A receive window that was filled in each round trip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FullWindow {
    /// Part of the time in which TCP waited for it.
    pub(crate) waited: f64,
    pub(crate) bytes: f64,
}

/// An upload with a rate limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BelowPolicer {
    /// The limit, and the rate that was reached, bytes/s.
    pub(crate) limit: f64,
    pub(crate) rate: f64,
    /// Part of the segments that was lost, and all of them.
    pub(crate) lost: f64,
    pub(crate) segments: f64,
    /// What an upload reached that was limited to twice the usual rate, bytes/s, and the part of its segments
    /// that was lost.
    pub(crate) above: Option<(f64, f64)>,
}
