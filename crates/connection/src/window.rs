//! The receive window of one channel: what was granted, what has come, when credit goes back, when it grows.
//!
//! All counts are totals since the channel opened, in 64 bits: differences of them are the window, so nothing
//! can go below zero or wrap after 4 GiB.
//!
//! Growth needs to know whether the peer waits for the window. The local count of what is left of it says
//! nothing: credit goes back as fast as data comes, so on a long path the window looks full here while the peer
//! stands still. What does say it is time. The first byte beyond a grant cannot have been sent before the grant
//! arrived, so "grant sent to first byte beyond the old one" is never less than a round trip and is exactly one
//! when the peer was waiting; the smallest such sample estimates the round trip. When data comes at a rate of at least
//! half a window per round trip, and our sink keeps up, the window doubles. A path that is limited by anything
//! else stops at two to four times what it holds in flight.

use std::time::{Duration, Instant};

use crate::WindowPolicy;

/// The receive side of one channel.
#[derive(Debug, Clone)]
pub(crate) struct ReceiveWindow {
    cap: u64,
    initial: u64,
    max_packet: u64,
    /// What the peer may have outstanding: sent by it and not credited back.
    size: u64,
    received: u64,
    consumed: u64,
    credited: u64,
    /// A grant whose first use is being timed: the end of the grants before it, and when it went out.
    timed_grant: Option<(u64, Instant)>,
    epoch: Option<Instant>,
    epoch_received: u64,
    grow: bool,
}

impl ReceiveWindow {
    pub(crate) fn new(policy: WindowPolicy, max_packet: u32) -> Self {
        // A window of 0 could never be opened again by the rule below.
        let initial = u64::from(if policy.initial == 0 { max_packet.max(1) } else { policy.initial });
        Self {
            cap: u64::from(policy.cap).max(initial),
            initial,
            max_packet: u64::from(max_packet.max(1)),
            size: initial,
            received: 0,
            consumed: 0,
            credited: 0,
            timed_grant: None,
            epoch: None,
            epoch_received: 0,
            grow: false,
        }
    }

    /// What the open or its confirmation announces.
    pub(crate) fn initial(&self) -> u32 {
        u32::try_from(self.initial).unwrap_or(u32::MAX)
    }

    /// What data in one packet may not exceed.
    pub(crate) fn max_packet(&self) -> u32 {
        u32::try_from(self.max_packet).unwrap_or(u32::MAX)
    }

    /// The present size.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// How far it has grown beyond its start.
    pub(crate) const fn grown(&self) -> u64 {
        self.size - self.initial
    }

    /// What the peer may still send, as far as we know.
    pub(crate) const fn left(&self) -> u64 {
        self.size + self.credited - self.received
    }

    /// Bytes that arrived and have not been consumed.
    pub(crate) const fn backlog(&self) -> u64 {
        self.received - self.consumed
    }

    pub(crate) fn set_cap(&mut self, cap: u32) {
        self.cap = u64::from(cap).max(self.size);
    }

    /// `n` bytes arrived; the caller has checked that they fit in [`left`](Self::left).
    pub(crate) fn on_data(&mut self, n: u64, now: Instant, round_trip: &mut Option<Duration>) {
        self.received += n.min(self.left());
        if let Some((end, sent)) = self.timed_grant
            && self.received > end
        {
            let sample = now.saturating_duration_since(sent);
            *round_trip = Some(round_trip.map_or(sample, |old| old.min(sample)));
            self.timed_grant = None;
        }
        self.epoch_received += n;
        let start = *self.epoch.get_or_insert(now);
        if let Some(round_trip) = *round_trip
            && now.saturating_duration_since(start) >= round_trip
        {
            // An epoch lasts longer than a round trip when this process did not get to run, or the path is short:
            // what counts is the rate.
            let elapsed = now.saturating_duration_since(start).as_nanos().max(1);
            let in_flight = u128::from(self.epoch_received) * round_trip.as_nanos() / elapsed;
            self.grow |= in_flight >= u128::from(self.size / 2) && self.backlog() <= self.size / 4;
            self.epoch = Some(now);
            self.epoch_received = 0;
        }
    }

    /// `n` bytes have left for their sink. More than have arrived is taken as all of them.
    pub(crate) fn on_consumed(&mut self, n: u64) {
        self.consumed += n.min(self.backlog());
    }

    /// The credit to send now, 0 for none yet. `budget` is what all windows together may still grow.
    ///
    /// Credit is due after three packets (OpenSSH's rule) or a sixteenth of the window, whichever is more, so that
    /// a big window does not cost an adjust every three packets; and earlier when less than half of the
    /// window is left, but then in pieces of a packet, unless the sink is empty and nothing larger will come.
    pub(crate) fn credit(&mut self, now: Instant, budget: &mut u64) -> u32 {
        let pending = self.consumed - self.credited;
        let many = pending > (3 * self.max_packet).max(self.size / 16);
        let low = self.left() < self.size / 2
            && (pending >= self.max_packet.min(self.size / 2) || self.backlog() == 0);
        if pending == 0 || !(many || low) {
            return 0;
        }
        let mut bytes = pending;
        if self.grow {
            self.grow = false;
            let step = self.size.min(self.cap - self.size).min(*budget);
            *budget -= step;
            self.size += step;
            bytes += step;
        }
        if self.timed_grant.is_none() {
            self.timed_grant = Some((self.received + self.left_before(bytes, pending), now));
        }
        self.credited += pending;
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// What was left before a grant of `bytes` of which `pending` is credit (the size has grown by the rest).
    const fn left_before(&self, bytes: u64, pending: u64) -> u64 {
        self.left() - (bytes - pending)
    }
}
