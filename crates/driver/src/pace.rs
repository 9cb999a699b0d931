//! Limits for the queues in front of the path, which keep the delay of a keystroke low.
//!
//! Bulk fills every queue, and interactive data waits behind it. So two queues hold only some milliseconds of
//! the path's rate: ours, and the kernel's queue of bytes that it has not sent once. The rate is measured
//! only while the path is the bottleneck. Bytes that are sent and not acknowledged fill the path itself and
//! do not count.
//!
//! The kernel's queue keeps data flowing while this process is not scheduled; the kernel asks for more when
//! half is gone. On a long path, where some milliseconds more go unnoticed, it gets twice the time and four
//! times the bytes.
//!
//! While interactive channels share the connection with bulk ([`Mix`](crate::mix::Mix)), both queues are much
//! shorter, but for the kernel's on a long path.

use std::time::{Duration, Instant};

/// Time that a queue may hold. In bytes, it is rounded down to a power of two.
const HOLD: Duration = Duration::from_millis(2);
/// The same while interactive channels share the connection with bulk. With it, a character typed beside bulk
/// at 1 GB/s takes as long as on an idle connection; half of it costs throughput.
const MIXED_HOLD: Duration = Duration::from_micros(125);
/// Length of one measurement.
const SPAN: Duration = Duration::from_millis(50);

/// Lower limit of a queue. A smaller one would cost a turn of the loop for every packet.
const LEAST: usize = 64 << 10;
/// Limit before the first measurement.
const FIRST: usize = 512 << 10;
/// Upper limit of our queue. A path that needs more is not the bottleneck.
pub(crate) const MOST: usize = 1 << 20;

/// Round-trip time from which a path counts as long.
const LONG: Duration = Duration::from_millis(20);
/// Factor on [`HOLD`] for the kernel's queue on a long path.
const LONG_HOLD: u32 = 2;
/// Upper limit of the kernel's queue on a long path, bytes.
const MOST_UNSENT: usize = 4 << 20;

/// Limits of the queues, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Our output queue.
    pub(crate) queue: usize,
    /// The kernel's queue of bytes that it has not sent once.
    pub(crate) unsent: usize,
}

/// Measures the rate of the path and derives the queue limits.
pub(crate) struct Pace {
    start: Option<(Instant, u64)>,
    /// The path was the bottleneck at some time in this span.
    blocked: bool,
    /// The round trip is so long that a few milliseconds more go unnoticed.
    long: bool,
    /// Rate of the path when it was last the bottleneck, bytes/s.
    rate: Option<u64>,
    room: Room,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        let room = Room { queue: FIRST, unsent: FIRST };
        Self { start: None, blocked: false, long: false, rate: None, room }
    }

    /// Sets the round-trip time to the peer.
    pub(crate) fn round_trip(&mut self, round_trip: Duration) {
        self.long = round_trip >= LONG;
    }

    /// Notes that the socket took no more.
    pub(crate) const fn blocked(&mut self) {
        self.blocked = true;
    }

    /// Evaluates the number of bytes written so far. `mixed`: interactive channels share the connection with
    /// bulk. Returns the new limits when they change.
    pub(crate) fn evaluate(&mut self, now: Instant, written: u64, mixed: bool) -> Option<Room> {
        let (start, before) = *self.start.get_or_insert((now, written));
        let span = now.saturating_duration_since(start);
        if span < SPAN {
            return None;
        }
        self.start = Some((now, written));
        // Otherwise the producer was the bottleneck, and the rate says nothing about the path.
        if std::mem::take(&mut self.blocked) {
            let moved = u128::from(written.saturating_sub(before));
            self.rate = u64::try_from(moved * 1_000_000 / span.as_micros().max(1)).ok();
        }
        let room = self.limits(self.rate?, mixed);
        (room != std::mem::replace(&mut self.room, room)).then_some(room)
    }

    /// Limits for a path of `rate`, bytes/s. `mixed`: as for [`evaluate`](Self::evaluate).
    fn limits(&self, rate: u64, mixed: bool) -> Room {
        let fits = |hold: Duration, most: usize| {
            let bytes = u128::from(rate) * hold.as_micros() / 1_000_000;
            1 << usize::try_from(bytes).unwrap_or(most).clamp(LEAST, most).ilog2()
        };
        let hold = if mixed { MIXED_HOLD } else { HOLD };
        let queue = fits(hold, MOST);
        let unsent = if self.long { fits(HOLD * LONG_HOLD, MOST_UNSENT) } else { queue };
        Room { queue, unsent }
    }

    /// Limit of our output queue, bytes.
    pub(crate) const fn queue(&self) -> usize {
        self.room.queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_hold_two_milliseconds_of_the_path() {
        let mut pace = Pace::new();
        let (mut now, mut written) = (Instant::now(), 0);
        let mut run = |rate: u64, blocked: bool| {
            for _ in 0..3 {
                now += SPAN;
                written += rate / 20;
                if blocked {
                    pace.blocked();
                }
                pace.evaluate(now, written, false);
            }
            pace.queue()
        };
        assert_eq!(run(1_000_000, false), FIRST, "a slow producer must not change the limit");
        assert_eq!(run(1_000_000, true), LEAST);
        assert_eq!(run(100_000_000, true), 128 << 10);
        assert_eq!(run(5_000_000_000, true), MOST);
        assert_eq!(run(1_000, false), MOST);
    }

    #[test]
    fn queues_are_shorter_beside_interactive_channels() {
        let mut pace = Pace::new();
        let (mut now, mut written) = (Instant::now(), 0);
        pace.evaluate(now, written, false);
        let mut run = |moved: u64, blocked: bool, mixed: bool| {
            now += SPAN;
            written += moved;
            if blocked {
                pace.blocked();
            }
            pace.evaluate(now, written, mixed);
            pace.room
        };
        let bulk = 1_500_000_000 / 20;
        assert_eq!(run(bulk, false, true).queue, FIRST, "the rate is not known");
        assert_eq!(run(bulk, true, false), Room { queue: MOST, unsent: MOST });
        assert_eq!(run(bulk, true, true), Room { queue: 128 << 10, unsent: 128 << 10 });
        // The measured rate still holds when the path is no longer the bottleneck.
        assert_eq!(run(bulk, false, false), Room { queue: MOST, unsent: MOST });
        assert_eq!(run(bulk, false, true), Room { queue: 128 << 10, unsent: 128 << 10 });
        pace.round_trip(Duration::from_millis(50));
        assert_eq!(pace.limits(240_000_000, true).unsent, 512 << 10, "a long path keeps the kernel's queue");
    }

    #[test]
    fn kernel_queue_is_larger_on_a_long_path() {
        for (round_trip, rate, unsent) in [
            (50, 240_000_000, 512 << 10),
            (100, 950_000_000, 2 << 20),
            (100, 10_000_000_000, MOST_UNSENT),
            (100, 1_000_000, LEAST),
            (1, 950_000_000, MOST),
        ] {
            let mut pace = Pace::new();
            pace.round_trip(Duration::from_millis(round_trip));
            let mut now = Instant::now();
            let mut written = 0;
            let mut last = None;
            for _ in 0..3 {
                now += SPAN;
                written += rate / 20;
                pace.blocked();
                last = pace.evaluate(now, written, false).or(last);
            }
            let room = last.expect("a changed limit");
            assert_eq!(room.unsent, unsent, "{round_trip} ms, {rate} B/s");
            assert!(room.queue <= MOST && room.queue <= room.unsent);
            // Unnoticeable: the bytes in front of a keystroke leave within 4 ms, unless the queue is at its
            // lower limit.
            assert!(room.unsent == LEAST || room.unsent as u64 * 1000 / rate <= 4);
        }
    }
}
