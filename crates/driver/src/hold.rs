//! Limit for what the peer may have on its way while interactive channels share the connection with bulk.
//!
//! Where the path is faster than this process, bytes wait in this socket, and a keystroke among them waits
//! for all before it. The kernel lets that queue grow to what this process takes from it in some round trips,
//! which are longer the longer the queue is: on one machine it holds a millisecond and more. TCP's window
//! does not limit it, but the windows of the channels do.
//!
//! On a longer path the windows must cover the bytes on their way, whose delay is more than that of the
//! queue, so only short paths get a limit. And only where such a queue has been seen: the sender pauses more
//! often, which costs up to a fifth of the rate.

use std::time::{Duration, Instant};

/// Time that all queues between the two ends may hold beside two round trips. With half of it the sender
/// waits more often than it sends.
const HOLD: Duration = Duration::from_micros(250);
/// Round trip from which a path gets no limit.
const LONG: Duration = Duration::from_micros(500);
/// Least limit, bytes.
const LEAST: u32 = 256 << 10;
/// Measures the rate at which bytes are received, and derives the limit.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    start: Option<(Instant, u64)>,
    /// Highest rate of recent spans, bytes/s. While there is a limit it does not fall: the limit itself may
    /// be the reason for a lower rate, and would then get ever smaller.
    rate: u64,
    /// A queue has been seen since interactive channels have shared the connection with bulk.
    queued: bool,
}

impl Hold {
    /// Evaluates the number of bytes read from the socket so far and returns the limit of each channel's
    /// window, bytes. To be called after each observation of [`Mix`](crate::mix::Mix). `mixed`: interactive
    /// channels share the connection with bulk. `round_trip` is that to the peer. `unread` returns the bytes
    /// that wait in the socket.
    pub(crate) fn evaluate(
        &mut self,
        now: Instant,
        read: u64,
        mixed: bool,
        round_trip: Option<Duration>,
        unread: impl FnOnce() -> u64,
    ) -> Option<u32> {
        let (start, before) = *self.start.get_or_insert((now, read));
        let span = now.saturating_duration_since(start);
        self.start = Some((now, read));
        let moved = u128::from(read.saturating_sub(before));
        let rate = u64::try_from(moved * 1_000_000 / span.as_micros().max(1)).unwrap_or(u64::MAX);
        let floor = if mixed { self.rate } else { self.rate / 2 };
        self.rate = rate.max(floor);
        let short = round_trip.filter(|&time| mixed && time < LONG);
        self.queued = short.is_some() && (self.queued || unread() > u64::from(LEAST));
        short.filter(|_| self.queued).map(|time| {
            let bytes = u128::from(self.rate) * (2 * time + HOLD).as_micros() / 1_000_000;
            u32::try_from(bytes).unwrap_or(u32::MAX).max(LEAST)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Length of an observation.
    const SPAN: Duration = Duration::from_millis(50);
    const NEAR: Option<Duration> = Some(Duration::from_micros(25));

    /// Evaluates spans with these rates; returns the last limit.
    fn run(hold: &mut Hold, rates: &[u64], mixed: bool, round_trip: Option<Duration>) -> Option<u32> {
        run_with(hold, rates, mixed, round_trip, 1 << 20)
    }

    fn run_with(
        hold: &mut Hold,
        rates: &[u64],
        mixed: bool,
        round_trip: Option<Duration>,
        unread: u64,
    ) -> Option<u32> {
        let (mut now, mut read) = hold.start.unwrap_or_else(|| (Instant::now(), 0));
        let mut limit = hold.evaluate(now, read, mixed, round_trip, || unread);
        for rate in rates {
            now += SPAN;
            read += rate / 20;
            limit = hold.evaluate(now, read, mixed, round_trip, || unread);
        }
        limit
    }

    #[test]
    fn only_a_queue_has_a_limit_and_keeps_it_when_it_is_gone() {
        let fast = [2_000_000_000];
        let mut hold = Hold::default();
        assert_eq!(run_with(&mut hold, &fast, true, NEAR, 64 << 10), None);
        assert_eq!(run_with(&mut hold, &fast, true, NEAR, 1 << 20), Some(600_000));
        assert_eq!(run_with(&mut hold, &fast, true, NEAR, 0), Some(600_000));
        assert_eq!(run_with(&mut hold, &fast, false, NEAR, 1 << 20), None);
        assert_eq!(run_with(&mut hold, &fast, true, NEAR, 0), None);
    }

    #[test]
    fn only_a_mix_on_a_short_path_has_a_limit() {
        let fast = [2_000_000_000];
        let mut hold = Hold::default();
        assert_eq!(run(&mut hold, &fast, false, NEAR), None);
        assert_eq!(run(&mut hold, &fast, true, NEAR), Some(600_000), "300 µs at 2 GB/s");
        assert_eq!(run(&mut hold, &fast, true, Some(LONG)), None);
        assert_eq!(run(&mut hold, &fast, true, None), None, "not TCP");
        assert_eq!(run(&mut hold, &[1_000_000], true, NEAR), Some(600_000));
        assert_eq!(run(&mut hold, &[1_000_000], false, NEAR), None);
        let mut slow = Hold::default();
        assert_eq!(run(&mut slow, &[1_000_000], true, NEAR), Some(LEAST));
    }

    #[test]
    fn a_limit_does_not_fall_with_the_rate_that_it_causes() {
        let mut hold = Hold::default();
        assert_eq!(run(&mut hold, &[2_000_000_000, 1_000_000_000, 500_000_000], true, NEAR), Some(600_000));
        // Without interactive channels the rate is forgotten.
        run(&mut hold, &[0; 20], false, NEAR);
        assert_eq!(run(&mut hold, &[0], true, NEAR), Some(LEAST));
    }
}
