//! What the kernel counted on a connection over which only small messages went.

/// Segments, and those of them that were sent again, for a verdict.
const LEAST: u64 = 20;
const LEAST_RESENT: u64 = 5;
/// Part of the segments sent again from which a login and each keystroke wait for it.
const MUCH: f64 = 0.1;

/// Segments of a connection over which only small messages went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SmallPackets {
    pub(crate) sent: u64,
    pub(crate) resent: u64,
    /// Those that the other end had already (DSACK).
    pub(crate) duplicates: u64,
}

impl SmallPackets {
    /// Part of the segments that was sent again.
    pub(crate) fn loss(self) -> f64 {
        self.resent as f64 / self.sent.max(1) as f64
    }

    /// Returns whether so many segments were sent again that waiting in vain says nothing about the size of
    /// packets.
    pub(super) fn are_lost(self) -> bool {
        self.sent >= LEAST && self.resent >= LEAST_RESENT && self.loss() >= MUCH
    }
}
