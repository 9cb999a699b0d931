//! How long a link may be silent before another one replaces it.

use std::time::{Duration, Instant};

/// Longest pause of a slow path that is tolerated. A dead path is detected after twice this time.
const LONGEST_GAP: Duration = Duration::from_secs(5);

/// Pause that a link is granted after one that was replaced without having delivered anything.
const FIRST_GAP: Duration = Duration::from_secs(1);

/// Packets after which a link needs no more time because of its predecessor: it delivers, so that a silence
/// is suspicious. A busy server serves a key exchange and some answers with fewer.
const PROVEN: u64 = 64;

/// Longest time between packets of a link that delivers steadily.
const STEADY: Duration = Duration::from_millis(500);

/// Patience with the present link. A link that delivers again although it had counted as silent is slow. So,
/// perhaps, is a path on which a new link falls silent before it has delivered anything: a busy server may
/// take longer to serve a link than the client waits, and links that replace each other sooner would never
/// deliver anything.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// The longest pause to expect.
    gap: Duration,
    /// The pause is not one of this link: the one before it has delivered nothing.
    is_inherited: bool,
    /// Packets received when the link began to carry the session.
    first: u64,
    /// The link has delivered something.
    has_delivered: bool,
    /// The link counts as silent.
    is_silent: bool,
    /// A change of the network, or a sleep of the machine, explains the next pause that ends.
    is_explained: bool,
    /// Number of received packets, and when it grew.
    packets: u64,
    grew: Option<Instant>,
    /// Since when it has grown without a pause.
    steady: Option<Instant>,
}

impl Patience {
    /// Returns the time to wait for an answer that is expected within `time`.
    pub(super) fn limit(&self, time: Duration) -> Duration {
        time.max(self.gap * 2)
    }

    /// Records a new link, with its number of received packets.
    pub(super) fn on_new_link(&mut self, packets: u64) {
        let is_in_vain = self.is_silent && !self.has_delivered;
        let gap = if is_in_vain { (self.gap * 2).clamp(FIRST_GAP, LONGEST_GAP) } else { Duration::ZERO };
        *self = Self { gap, is_inherited: is_in_vain, first: packets, packets, ..Self::default() };
    }

    /// Records a change of the network that concerns the link, or a sleep of the machine.
    pub(super) const fn on_change(&mut self) {
        self.is_explained = true;
    }

    /// Records the number of packets that the link has received.
    pub(super) fn on_packets(&mut self, packets: u64, now: Instant) {
        if packets != self.packets {
            let pauses = self.grew.is_none_or(|grew| now.saturating_duration_since(grew) > STEADY);
            let since = self.steady.filter(|_| !pauses).unwrap_or(now);
            (self.packets, self.grew, self.steady) = (packets, Some(now), Some(since));
            // Bulk data without a pause is never queried, so it has no answer in time either.
            if !self.is_silent && now.saturating_duration_since(since) >= self.gap {
                (self.gap, self.is_inherited) = (Duration::ZERO, false);
            }
        }
        self.has_delivered |= packets != self.first;
        if self.is_inherited && !self.is_silent && packets.saturating_sub(self.first) >= PROVEN {
            (self.gap, self.is_inherited) = (Duration::ZERO, false);
        }
    }

    /// Records that the link counts as silent.
    pub(super) const fn on_silence(&mut self) {
        self.is_silent = true;
    }

    /// Records that a link which counts as silent is kept, because there is nothing better.
    pub(super) const fn on_kept(&mut self) {
        self.is_silent = false;
    }

    /// Records that a link which counted as silent has delivered something, after this pause.
    pub(super) fn on_end_of_silence(&mut self, pause: Duration) {
        (self.is_silent, self.is_inherited) = (false, false);
        if !std::mem::take(&mut self.is_explained) {
            self.gap = self.gap.max(pause).min(LONGEST_GAP);
        }
    }

    /// Records an answer; `in_time`: so early that the path is not slow.
    pub(super) const fn on_answer(&mut self, in_time: bool) {
        self.is_silent = false;
        self.is_explained &= !in_time;
        if in_time {
            self.gap = Duration::ZERO;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Duration = Duration::from_millis(500);

    #[test]
    fn links_that_deliver_nothing_get_more_time() {
        let mut patience = Patience::default();
        patience.on_packets(7, Instant::now());
        let mut limits = Vec::new();
        for _ in 0..6 {
            limits.push(patience.limit(ANSWER).as_millis());
            patience.on_silence();
            // What brought the link about is no delivery.
            patience.on_new_link(5);
            patience.on_packets(5, Instant::now());
        }
        assert_eq!(limits, [500, 500, 2000, 4000, 8000, 10_000]);
        // One that delivers before it falls silent is replaced as fast as ever.
        patience.on_packets(6, Instant::now());
        patience.on_silence();
        patience.on_new_link(5);
        assert_eq!(patience.limit(ANSWER), ANSWER);
    }

    #[test]
    fn links_that_break_cost_no_patience() {
        let mut patience = Patience::default();
        for _ in 0..3 {
            patience.on_new_link(5);
            assert_eq!(patience.limit(ANSWER), ANSWER);
        }
    }

    /// A link after one that was replaced in vain.
    fn after_one_in_vain() -> Patience {
        let mut patience = Patience::default();
        patience.on_silence();
        patience.on_new_link(5);
        assert_eq!(patience.limit(ANSWER), FIRST_GAP * 2);
        patience
    }

    #[test]
    fn a_link_that_delivers_much_needs_no_more_time() {
        let mut patience = after_one_in_vain();
        patience.on_packets(5 + PROVEN - 1, Instant::now());
        assert_eq!(patience.limit(ANSWER), FIRST_GAP * 2);
        patience.on_packets(5 + PROVEN, Instant::now());
        assert_eq!(patience.limit(ANSWER), ANSWER);
        // A pause of the link itself counts until an answer comes in time.
        let mut patience = after_one_in_vain();
        patience.on_silence();
        patience.on_packets(5 + PROVEN, Instant::now());
        assert_eq!(patience.limit(ANSWER), FIRST_GAP * 2);
        patience.on_end_of_silence(Duration::from_secs(3));
        patience.on_packets(6 + PROVEN, Instant::now());
        assert_eq!(patience.limit(ANSWER), Duration::from_secs(6));
    }

    #[test]
    fn a_silent_link_that_is_kept_is_not_in_vain() {
        let mut patience = Patience::default();
        patience.on_silence();
        patience.on_kept();
        patience.on_new_link(5);
        assert_eq!(patience.limit(ANSWER), ANSWER);
    }

    #[test]
    fn a_slow_link_has_time_until_it_answers_in_time() {
        let mut patience = Patience::default();
        patience.on_silence();
        patience.on_end_of_silence(Duration::from_secs(2));
        patience.on_answer(false);
        assert_eq!(patience.limit(ANSWER), Duration::from_secs(4));
        patience.on_end_of_silence(Duration::from_secs(60));
        assert_eq!(patience.limit(ANSWER), Duration::from_secs(10));
        patience.on_answer(true);
        assert_eq!(patience.limit(ANSWER), ANSWER);
    }

    #[test]
    fn a_pause_is_forgotten_after_as_much_time_without_one() {
        let (start, mut patience) = (Instant::now(), Patience::default());
        let mut limit_after = |from: u64, every: u64, steps: u64| {
            patience.on_silence();
            patience.on_end_of_silence(Duration::from_secs(3));
            for step in 0..=steps {
                let now = start + Duration::from_secs(from) + Duration::from_millis(every * step);
                patience.on_packets(from * 1000 + step, now);
            }
            patience.limit(ANSWER)
        };
        assert_eq!(limit_after(10, 100, 29), Duration::from_secs(6));
        assert_eq!(limit_after(20, 100, 30), ANSWER);
        // A path that delivers in pieces, with pauses.
        assert_eq!(limit_after(30, 600, 20), Duration::from_secs(6));
    }

    #[test]
    fn a_pause_by_the_network_here_is_not_the_paths() {
        let mut patience = Patience::default();
        patience.on_change();
        patience.on_silence();
        patience.on_end_of_silence(Duration::from_secs(3));
        assert_eq!(patience.limit(ANSWER), ANSWER);
        patience.on_silence();
        patience.on_end_of_silence(Duration::from_secs(3));
        assert_eq!(patience.limit(ANSWER), Duration::from_secs(6));
        // An answer in time after a change ends its effect.
        patience.on_change();
        patience.on_answer(true);
        patience.on_silence();
        patience.on_end_of_silence(Duration::from_secs(3));
        assert_eq!(patience.limit(ANSWER), Duration::from_secs(6));
    }
}
