//! How much may wait in front of a keystroke.
//!
//! Bulk fills whatever queue it is given, and what a person types stands behind it. So the queues (ours, and the
//! kernel's of bytes it has not sent once) hold only some milliseconds of what the path takes, measured while it was the
//! path that was waited for. Bytes that are sent and not acknowledged are the path itself and not counted.

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

/// Measures the path.
pub(crate) struct Pace {
    start: Option<(Instant, u64)>,
    /// The path was waited for since the start of the span.
    blocked: bool,
    queue: usize,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self { start: None, blocked: false, queue: FIRST }
    }

    /// The socket took no more.
    pub(crate) const fn blocked(&mut self) {
        self.blocked = true;
    }

    /// Looks at the number of bytes written so far; says how much a queue may hold from now on when that changes.
    pub(crate) fn look(&mut self, now: Instant, written: u64) -> Option<usize> {
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
        let fits = moved * HOLD.as_micros() / span.as_micros().max(1);
        let queue = 1 << usize::try_from(fits).unwrap_or(MOST).clamp(LEAST, MOST).ilog2();
        (queue != std::mem::replace(&mut self.queue, queue)).then_some(queue)
    }

    /// What a queue may hold.
    pub(crate) const fn queue(&self) -> usize {
        self.queue
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
}
