//! The path at rest: what was measured of it before, and besides, the transfers.

use crate::flow::{Direction, Flow};
use crate::probe::{Reached, Segments};
use crate::shell::System;
use crate::stats::lowest;

use super::super::small_packets::SmallPackets;

/// How many times longer than TCP's the round trip of SSH must be, and how much, seconds, for TCP to end on
/// the way.
const MANY_TIMES: f64 = 3.0;
const FARTHER: f64 = 0.015;
/// Small messages for that verdict.
const LEAST_PINGS: usize = 10;

/// The path to the server without load.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathAtRest {
    /// TCP connection of the probe, with its round trip; `None` where the host is reached through a proxy.
    pub(crate) reached: Option<Reached>,
    /// The host is reached through a jump host or a proxy command: TCP at the server ends there.
    pub(crate) is_proxied: bool,
    /// Largest packets to the server that arrived, bytes.
    pub(crate) segments: Option<Segments>,
    /// Largest packets of the server that arrived here, bytes, roughly, where larger ones did not.
    pub(crate) swallowed: Option<Segments>,
    /// Round trips of small messages on the idle connection, seconds.
    pub(crate) pings: Vec<f64>,
    /// Time that both ends waited for their turn at a processor for each of these messages, seconds, where
    /// the round trips vary.
    pub(crate) pings_waited: Option<f64>,
    /// Segments of the idle connection until then.
    pub(crate) small_packets: Option<SmallPackets>,
}

impl PathAtRest {
    /// Round trips of TCP and of SSH, seconds, where TCP is answered by something on the way: the fastest of
    /// many small messages takes a multiple of TCP's round trip.
    pub(crate) fn answered_on_the_way(&self) -> Option<(f64, f64)> {
        let of_tcp = self.reached.as_ref().filter(|_| !self.is_proxied)?.connect;
        self.ends_on_the_way(of_tcp)
    }

    /// Returns round trips of TCP and of SSH, seconds, where SSH's is a multiple of TCP's: TCP ends on the
    /// way.
    pub(super) fn ends_on_the_way(&self, of_tcp: f64) -> Option<(f64, f64)> {
        let of_ssh = lowest(self.pings.iter().copied()).filter(|_| self.pings.len() >= LEAST_PINGS)?;
        (of_ssh >= of_tcp * MANY_TIMES && of_ssh - of_tcp >= FARTHER).then_some((of_tcp, of_ssh))
    }
}

/// The way to a jump host by itself.
#[derive(Debug, Clone)]
pub(crate) struct JumpHost {
    pub(crate) name: String,
    /// Round trips of small messages, seconds.
    pub(crate) pings: Vec<f64>,
    pub(crate) there: System,
    /// Transfers to the jump host alone.
    pub(crate) up: Option<Flow>,
    pub(crate) down: Option<Flow>,
    /// Rates through it, bytes/s: the faster of two where they were much slower than to it.
    pub(crate) up_through: f64,
    pub(crate) down_through: f64,
}

impl JumpHost {
    pub(crate) const fn through(&self, direction: Direction) -> f64 {
        match direction {
            Direction::Up => self.up_through,
            Direction::Down => self.down_through,
        }
    }

    pub(crate) const fn flow(&self, direction: Direction) -> Option<&Flow> {
        match direction {
            Direction::Up => self.up.as_ref(),
            Direction::Down => self.down.as_ref(),
        }
    }
}
