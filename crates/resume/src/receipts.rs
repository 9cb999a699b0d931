//! Counting of received messages, and the times of acknowledgements.

use std::time::{Duration, Instant};

/// Intervals at which received messages are acknowledged.
///
/// The sender keeps all messages that are in flight, and all that are received but not acknowledged. A
/// shorter pace saves the peer's memory and costs packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Received bytes after which an acknowledgement is sent at once.
    pub bytes: usize,
    /// Time after which an acknowledgement is sent by itself, unless [little](Self::AT_REST) was received.
    /// After a quarter of it, an acknowledgement is sent together with other output.
    pub time: Duration,
}

impl Pace {
    /// One packet of 40 bytes for 256 KiB is 0.02 % of the data.
    pub const BYTES: usize = 256 * 1024;

    /// Time after which an acknowledgement of little data is sent by itself: less than [`Self::LITTLE`] and
    /// fewer than [`Self::FEW`] messages. The sender loses nothing by keeping these, and what follows mostly
    /// carries the acknowledgement: a login and a small copy cost no packet for it.
    pub const AT_REST: Duration = Duration::from_secs(1);

    /// Received bytes from which they are not little.
    pub const LITTLE: usize = 16 * 1024;

    /// Received messages from which they are not few.
    pub const FEW: u64 = 64;

    /// Shortest time: a short path must not cost a packet for each keystroke.
    const LEAST: Duration = Duration::from_millis(200);

    /// Returns the pace for a path with this round trip. A message is acknowledged after one round trip at
    /// most (200 ms on short paths), so the sender keeps the messages of about two round trips.
    pub fn for_path(round_trip: Duration) -> Self {
        Self { bytes: Self::BYTES, time: round_trip.max(Self::LEAST) }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::for_path(Self::LEAST)
    }
}

/// Number of counted messages that were received and acted on, and when to acknowledge them.
#[derive(Debug, Clone)]
pub struct Receipts {
    received: u64,
    acknowledged: u64,
    /// Bytes received since the last acknowledgement.
    bytes: usize,
    /// Time of the first message since the last acknowledgement.
    since: Option<Instant>,
    pace: Pace,
}

impl Receipts {
    /// Starts a session in which nothing was received.
    pub const fn new(pace: Pace) -> Self {
        Self { received: 0, acknowledged: 0, bytes: 0, since: None, pace }
    }

    /// Sets the pace, for a path whose round trip has changed.
    pub const fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// Records that a counted message of `len` bytes was handed to the connection layer. Call it once for
    /// each, in the step that hands it over: a message that is not counted would be delivered twice after a
    /// resumption.
    pub fn on_message(&mut self, len: usize, now: Instant) {
        self.received += 1;
        self.bytes = self.bytes.saturating_add(len);
        self.since.get_or_insert(now);
    }

    /// Returns the number of messages received in the session.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Returns the count to acknowledge now, if it is due. `riding`: other output is being sent anyway.
    /// Call [`on_acknowledged`](Self::on_acknowledged) when the acknowledgement is queued.
    pub fn due(&self, riding: bool, now: Instant) -> Option<u64> {
        let since = self.since?;
        let waited = now.saturating_duration_since(since);
        let timeout = if riding { self.pace.time / 4 } else { self.timeout() };
        (self.bytes >= self.pace.bytes || waited >= timeout).then_some(self.received)
    }

    /// Returns the count to acknowledge now because of the number of received bytes, regardless of the time.
    pub const fn due_by_bytes(&self) -> Option<u64> {
        if self.bytes >= self.pace.bytes { Some(self.received) } else { None }
    }

    /// Returns the time at which an acknowledgement is due without other output.
    pub fn deadline(&self) -> Option<Instant> {
        self.since.and_then(|since| since.checked_add(self.timeout()))
    }

    /// Returns the time after which an acknowledgement is sent by itself.
    fn timeout(&self) -> Duration {
        let little = self.bytes < Pace::LITTLE && self.unacknowledged() < Pace::FEW;
        if little { self.pace.time.max(Pace::AT_REST) } else { self.pace.time }
    }

    /// Records that the peer was sent `count`: by an acknowledgement, or when a session resumes.
    pub fn on_acknowledged(&mut self, count: u64) {
        self.acknowledged = self.acknowledged.max(count.min(self.received));
        if self.acknowledged == self.received {
            (self.bytes, self.since) = (0, None);
        }
    }

    /// Returns the number of messages that were received and not acknowledged.
    pub const fn unacknowledged(&self) -> u64 {
        self.received - self.acknowledged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_is_acknowledged_by_bytes() {
        let now = Instant::now();
        let mut receipts = Receipts::new(Pace::default());
        for _ in 0..3 {
            receipts.on_message(64 * 1024, now);
            assert_eq!(receipts.due(true, now), None);
        }
        assert_eq!(receipts.due_by_bytes(), None);
        receipts.on_message(64 * 1024, now);
        assert_eq!((receipts.due(false, now), receipts.due_by_bytes()), (Some(4), Some(4)));
        receipts.on_acknowledged(4);
        assert_eq!(
            (receipts.due(true, now), receipts.deadline(), receipts.unacknowledged()),
            (None, None, 0)
        );
    }

    #[test]
    fn little_is_acknowledged_by_time_or_rides() {
        let now = Instant::now();
        let mut receipts = Receipts::new(Pace::for_path(Duration::from_secs(1)));
        receipts.on_message(40, now);
        let after = |ms| now + Duration::from_millis(ms);
        assert_eq!(receipts.due(true, after(249)), None);
        assert_eq!(receipts.due(true, after(250)), Some(1));
        assert_eq!(receipts.due(false, after(999)), None);
        assert_eq!(receipts.due(false, after(1000)), Some(1));
        assert_eq!(receipts.deadline(), Some(after(1000)));
    }

    #[test]
    fn little_waits_longer_than_more() {
        let now = Instant::now();
        let after = |ms| now + Duration::from_millis(ms);
        for (messages, len, deadline) in [(1, 40, 1000), (63, 40, 1000), (64, 40, 200), (1, 16 << 10, 200)] {
            let mut receipts = Receipts::new(Pace::default());
            (0..messages).for_each(|_| receipts.on_message(len, now));
            assert_eq!(receipts.deadline(), Some(after(deadline)), "{messages} of {len}");
            assert_eq!(receipts.due(true, after(50)), Some(messages));
            assert_eq!(receipts.due(false, after(deadline - 1)), None);
        }
    }

    #[test]
    fn a_silent_session_sends_nothing() {
        let receipts = Receipts::new(Pace::default());
        assert_eq!(receipts.deadline(), None);
        assert_eq!(receipts.due(true, Instant::now() + Duration::from_secs(3600)), None);
    }
}
