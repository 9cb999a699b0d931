//! How much may wait in front of a keystroke.
//!
//! Bulk fills whatever queue it is given, and what a person types stands behind it. So the queues (ours, and the
//! kernel's of bytes it has not sent once) hold only some milliseconds of what the path takes, measured while it was the
//! path that was waited for. Bytes that are sent and not acknowledged are the path itself and not counted.
//!
//! What the kernel holds is what goes on flowing while this process does not get to run: it asks for more when half is gone. On a
//! long path, where nobody sees some milliseconds more, it gets twice the time and four times the bytes.

use std::time::{Duration, Instant};

/// What a queue may hold, in time; rounded down to a power of two of bytes.
const HOLD: Duration = Duration::from_millis(2);
/// How long the path is looked at.
const SPAN: Duration = Duration::from_millis(50);

/// Less would cost a turn of the loop for every packet.
const LEAST: usize = 64 << 10;
/// What is allowed before anything is known.
const FIRST: usize = 512 << 10;
/// A faster path is not waited for anyway.
pub(crate) const MOST: usize = 1 << 20;

/// From this round trip on…
const LONG: Duration = Duration::from_millis(20);
/// …the kernel may hold so many times as long…
const LONG_HOLD: u32 = 2;
/// …and so much at most.
const MOST_UNSENT: usize = 4 << 20;

/// What queues may hold, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Ours.
    pub(crate) queue: usize,
    /// The kernel's, of what it has not sent once.
    pub(crate) unsent: usize,
}

/// Measures the path.
pub(crate) struct Pace {
    start: Option<(Instant, u64)>,
    /// The path was waited for since the start of the span.
    blocked: bool,
    /// A round trip is so long that nobody sees a few milliseconds more.
    long: bool,
    room: Room,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self { start: None, blocked: false, long: false, room: Room { queue: FIRST, unsent: FIRST } }
    }

    /// How far it is to the other end.
    pub(crate) fn round_trip(&mut self, round_trip: Duration) {
        self.long = round_trip >= LONG;
    }

    /// The socket took no more.
    pub(crate) const fn blocked(&mut self) {
        self.blocked = true;
    }

    /// Looks at the number of bytes written so far; says how much queues may hold from now on when that changes.
    pub(crate) fn look(&mut self, now: Instant, written: u64) -> Option<Room> {
        let (start, before) = *self.start.get_or_insert((now, written));
        let span = now.saturating_duration_since(start);
        if span < SPAN {
            return None;
        }
        self.start = Some((now, written));
        // Otherwise the producer was what was waited for, and the rate says nothing about the path.
        if !std::mem::take(&mut self.blocked) {
            return None;
        }
        let moved = u128::from(written.saturating_sub(before));
        let fits = |hold: Duration, most: usize| {
            let bytes = moved * hold.as_micros() / span.as_micros().max(1);
            1 << usize::try_from(bytes).unwrap_or(most).clamp(LEAST, most).ilog2()
        };
        let queue = fits(HOLD, MOST);
        let unsent = if self.long { fits(HOLD * LONG_HOLD, MOST_UNSENT) } else { queue };
        let room = Room { queue, unsent };
        (room != std::mem::replace(&mut self.room, room)).then_some(room)
    }

    /// What our queue may hold.
    pub(crate) const fn queue(&self) -> usize {
        self.room.queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_hold_what_the_path_takes_in_two_milliseconds() {
        let mut pace = Pace::new();
        let (mut now, mut written) = (Instant::now(), 0);
        let mut run = |rate: u64, blocked: bool| {
            for _ in 0..3 {
                now += SPAN;
                written += rate / 20;
                if blocked {
                    pace.blocked();
                }
                pace.look(now, written);
            }
            pace.queue()
        };
        assert_eq!(run(1_000_000, false), FIRST, "a slow producer says nothing about the path");
        assert_eq!(run(1_000_000, true), LEAST);
        assert_eq!(run(100_000_000, true), 128 << 10);
        assert_eq!(run(5_000_000_000, true), MOST);
        assert_eq!(run(1_000, false), MOST);
    }

    #[test]
    fn the_kernel_holds_more_of_a_long_path() {
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
                last = pace.look(now, written).or(last);
            }
            let room = last.expect("another size than the first");
            assert_eq!(room.unsent, unsent, "{round_trip} ms, {rate} B/s");
            assert!(room.queue <= MOST && room.queue <= room.unsent);
            // No person notices: what stands in front of a keystroke leaves within 5 ms or is the least there is.
            assert!(room.unsent == LEAST || room.unsent as u64 * 1000 / rate <= 4);
        }
    }
}
