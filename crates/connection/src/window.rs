//! The receive window of one channel: granted and received bytes, time of credit, and growth.
//!
//! All counts are totals since the channel opened, in 64 bits. The window is a difference of counts, so it
//! can neither become negative nor wrap after 4 GiB.
//!
//! Growth needs to know whether the peer waits for the window. The local count of the remaining window is no
//! indication: credit is returned as fast as data arrives, so on a long path the window looks full here while
//! the peer waits. The indication is time. The first byte beyond a grant cannot have been sent before the
//! grant arrived. So the time from sending a grant to the first byte beyond the previous one is at least a
//! round trip, and exactly one if the peer was waiting. The smallest such sample is the round-trip estimate.
//! [`growth`](crate::growth) decides from the rate and the round trip.

use std::time::{Duration, Instant};

use crate::WindowPolicy;
use crate::growth::{Growth, Present, WindowTarget};

/// The receive side of one channel.
#[derive(Debug, Clone)]
pub(crate) struct ReceiveWindow {
    cap: u64,
    initial: u64,
    max_packet: u64,
    /// Bytes that the peer may have outstanding: sent by it but not credited back.
    size: u64,
    received: u64,
    consumed: u64,
    credited: u64,
    /// A grant whose first use is being timed: the end of the previous grants, and the time at which it was
    /// sent.
    timed_grant: Option<(u64, Instant)>,
    growth: Growth,
    target: Option<WindowTarget>,
    /// Time of the last credit.
    last_credit: Option<Instant>,
}

/// Minimum number of credits per round trip while data arrives: credit that waits is unused window.
const CREDITS_PER_ROUND_TRIP: u32 = 32;

/// Minimum time between credits sent for that reason alone. Otherwise a short path would get one for each
/// packet.
const LEAST_CREDIT_GAP: Duration = Duration::from_millis(1);

impl ReceiveWindow {
    pub(crate) fn new(policy: WindowPolicy, max_packet: u32) -> Self {
        // With a window of 0 the rule for credit below would never grant any.
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
            growth: Growth::default(),
            target: None,
            last_credit: None,
        }
    }

    /// Returns the window that the open or its confirmation announces, bytes.
    pub(crate) fn initial(&self) -> u32 {
        u32::try_from(self.initial).unwrap_or(u32::MAX)
    }

    /// Returns the limit of data in one packet, bytes.
    pub(crate) fn max_packet(&self) -> u32 {
        u32::try_from(self.max_packet).unwrap_or(u32::MAX)
    }

    /// Returns the current size, bytes.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the growth beyond the initial size, bytes.
    pub(crate) const fn grown(&self) -> u64 {
        self.size - self.initial
    }

    /// Returns the bytes that the peer may still send, as far as we know.
    pub(crate) const fn left(&self) -> u64 {
        self.size + self.credited - self.received
    }

    /// Returns the bytes received since the channel opened.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// Returns the bytes that arrived and have not been consumed.
    pub(crate) const fn backlog(&self) -> u64 {
        self.received - self.consumed
    }

    pub(crate) fn set_cap(&mut self, cap: u32) {
        self.cap = u64::from(cap).max(self.size);
    }

    /// Records `n` received bytes; the caller has checked that they fit in [`left`](Self::left).
    pub(crate) fn on_data(&mut self, n: u64, now: Instant, round_trip: &mut Option<Duration>) {
        self.received += n.min(self.left());
        if let Some((end, sent)) = self.timed_grant
            && self.received > end
        {
            let sample = now.saturating_duration_since(sent);
            *round_trip = Some(round_trip.map_or(sample, |old| old.min(sample)));
            self.timed_grant = None;
        }
        let present = Present {
            size: self.size,
            initial: self.initial,
            cap: self.cap,
            backlog: self.backlog(),
            changing: self.target.is_some(),
        };
        if let Some(target) = self.growth.on_data(n, now, *round_trip, present) {
            self.target = Some(target);
        }
    }

    /// Records that `n` bytes were passed to their sink. A larger number than the backlog counts as all of
    /// it.
    pub(crate) fn on_consumed(&mut self, n: u64) {
        self.consumed += n.min(self.backlog());
        self.growth.on_consumed(self.backlog());
    }

    /// Returns the credit to send now, bytes; 0 for none yet. `budget` is the remaining growth of all windows
    /// together.
    ///
    /// Credit is due after three packets (OpenSSH's rule) or a sixty-fourth of the window, whichever is more,
    /// so that a big window does not cost an adjust every three packets. It is also due after a fraction of a
    /// round trip, and when less than half of the window is left. In the latter case at least one packet must
    /// be pending, unless the sink is empty and nothing larger will come.
    ///
    /// `hold`: with this many bytes left to the peer it gets no credit ([`Connection::hold_windows`]); the
    /// rest is kept back, and due again when more has arrived and been consumed.
    ///
    /// [`Connection::hold_windows`]: crate::Connection::hold_windows
    pub(crate) fn credit(
        &mut self,
        now: Instant,
        round_trip: Option<Duration>,
        budget: &mut u64,
        hold: Option<u64>,
    ) -> u32 {
        let mut pending = self.consumed - self.credited;
        if let Some(hold) = hold {
            let room = hold.saturating_sub(self.left());
            if room < pending {
                // Few credits for a window that is smaller than its size says, but early enough.
                if room < hold / 4 {
                    return 0;
                }
                pending = room;
            }
        }
        let many = pending > (3 * self.max_packet).max(self.size / 64);
        let long = pending >= self.max_packet
            && self.last_credit.zip(round_trip).is_some_and(|(last, round_trip)| {
                let gap = (round_trip / CREDITS_PER_ROUND_TRIP).max(LEAST_CREDIT_GAP);
                now.saturating_duration_since(last) >= gap
            });
        let low = self.left() * 2 < self.size
            && (pending >= self.max_packet.min(self.size / 2) || self.backlog() == 0);
        if pending == 0 || !(many || long || low) {
            return 0;
        }
        self.last_credit = Some(now);
        self.credited += pending;
        let bytes = match self.target {
            Some(WindowTarget::Larger(wanted)) => {
                self.target = None;
                let step = wanted.min(self.cap).saturating_sub(self.size).min(*budget);
                // Limit of the value in one adjust.
                let step = step.min(u64::from(u32::MAX).saturating_sub(pending));
                *budget -= step;
                self.size += step;
                pending + step
            }
            Some(WindowTarget::Spare(_)) if self.growth.sink_has_enough(self.backlog()) => {
                self.target = None;
                self.growth.spared(now, round_trip.unwrap_or_default());
                pending
            }
            Some(target @ (WindowTarget::Smaller(wanted) | WindowTarget::Spare(wanted))) => {
                // Granted credit cannot be withdrawn, only not renewed. If the peer has little left, half of
                // it is renewed, so that data keeps flowing.
                let most = if self.growth.is_plenty(self.left().saturating_sub(pending)) {
                    pending
                } else {
                    pending / 2
                };
                let kept = self.size.saturating_sub(wanted.max(self.initial)).min(most);
                self.size -= kept;
                *budget += kept;
                if self.size <= wanted.max(self.initial) || kept == 0 {
                    self.target = None;
                    if target == WindowTarget::Spare(wanted) {
                        self.growth.spared(now, round_trip.unwrap_or_default());
                    }
                }
                pending - kept
            }
            None => pending,
        };
        if self.timed_grant.is_none() && bytes > 0 {
            self.timed_grant = Some((self.received + self.left().saturating_sub(bytes), now));
        }
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }
}
