//! Rate limit of one direction that several connections, also of several processes, share
//! (`PerUserReceiveRate`, `PerUserSendRate` of the server).
//!
//! The connections share one number: the time at which all their bytes so far are on time at the rate (a
//! virtual schedule, as in the generic cell rate algorithm). A connection that moves bytes appends them to
//! the schedule and pauses until their place has come. So connections take turns in the order in which they
//! moved their last bytes, and each gets its share however many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lh_sys::shared_words::SharedWords;

/// Time of the rate that passes at once after a time without data.
const BURST: Duration = Duration::from_millis(100);

/// Time of the rate that a connection moves in one system call. All other connections wait for so long.
const PIECE: Duration = Duration::from_millis(25);

/// Smallest piece, bytes. At a very low rate, the pause after a larger one would look like a broken path.
const LEAST_PIECE: usize = 1 << 10;

/// Upper limit of the time that the schedule is ahead, and of the cost of one piece. No content of the
/// file makes a pause longer than the sum. Correct schedules reach it with more than a thousand
/// connections only, which then get more than the rate.
const MOST_AHEAD: Duration = Duration::from_secs(30);

/// A rate of one direction, and the schedule that it shares with other connections. Each connection counts
/// its own bytes at its own rate.
#[derive(Debug, Clone)]
pub struct SharedRate {
    words: Arc<SharedWords>,
    index: usize,
    per_second: u64,
}

impl SharedRate {
    /// A rate of `per_second` bytes, whose schedule is the word `index`: nanoseconds of the monotonic clock.
    /// A rate of 0 counts as 1. `None` if there is no such word.
    pub fn new(words: Arc<SharedWords>, index: usize, per_second: u64) -> Option<Self> {
        words.get(index)?;
        Some(Self { words, index, per_second: per_second.max(1) })
    }

    /// Bytes to move in one system call.
    pub(crate) fn most_at_once(&self) -> usize {
        usize::try_from(self.bytes_in(PIECE)).unwrap_or(usize::MAX).max(LEAST_PIECE)
    }

    /// Bytes that the rate lets through in this time.
    pub(crate) fn bytes_in(&self, time: Duration) -> u64 {
        u64::try_from(u128::from(self.per_second) * time.as_millis() / 1000).unwrap_or(u64::MAX)
    }

    /// Counts `bytes` moved now. Returns the time until which this connection moves no more.
    pub(crate) fn moved(&self, bytes: usize) -> Option<Instant> {
        let schedule = self.words.get(self.index)?;
        let now = nanos(lh_sys::time::monotonic());
        let pause = pause(schedule, now, bytes, self.per_second);
        (!pause.is_zero()).then(|| Instant::now() + pause)
    }
}

/// Appends bytes to the schedule at `now` in nanoseconds. Returns the pause that follows.
fn pause(schedule: &AtomicU64, now: u64, bytes: usize, per_second: u64) -> Duration {
    let most = nanos(MOST_AHEAD);
    let cost = bytes as u128 * 1_000_000_000 / u128::from(per_second);
    let cost = u64::try_from(cost).unwrap_or(u64::MAX).min(most);
    let place = |on_time: u64| {
        // A schedule is never so far ahead: this value is older than the last boot, or not ours.
        let is_foreign = on_time > now.saturating_add(2 * most);
        let begin = if is_foreign { now } else { on_time.clamp(now, now.saturating_add(most)) };
        begin.saturating_add(cost)
    };
    // Only the number itself is shared, so no order with other memory is needed.
    let before = schedule.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |on_time| Some(place(on_time)));
    let place = place(before.unwrap_or_else(|on_time| on_time));
    Duration::from_nanos(place.saturating_sub(now).saturating_sub(nanos(BURST)))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    /// A time of the clock.
    const NOW: u64 = 5000 * SECOND;

    fn millis(schedule: &AtomicU64, now: u64, bytes: usize, per_second: u64) -> u128 {
        pause(schedule, now, bytes, per_second).as_millis()
    }

    #[test]
    fn bytes_beyond_the_burst_wait_for_their_place() {
        let schedule = AtomicU64::new(0);
        assert_eq!(millis(&schedule, NOW, 100, 1000), 0, "the burst");
        assert_eq!(millis(&schedule, NOW, 500, 1000), 500);
        assert_eq!(millis(&schedule, NOW, 500, 1000), 1000, "behind those of another connection");
        assert_eq!(millis(&schedule, NOW + SECOND, 50, 1000), 50, "no second burst");
        assert_eq!(millis(&schedule, NOW + 600 * SECOND, 200, 1000), 100, "waiting earns one burst only");
    }

    #[test]
    fn each_connection_counts_at_its_own_rate() {
        let schedule = AtomicU64::new(0);
        assert_eq!(millis(&schedule, NOW, 1000, 1000), 900);
        assert_eq!(millis(&schedule, NOW, 1000, 10_000), 1000);
    }

    #[test]
    fn an_absurd_schedule_causes_no_long_pause() {
        for (found, most) in [
            (u64::MAX, 0),
            (NOW + 3600 * SECOND, 0),
            (NOW + 50 * SECOND, 30_000),
            (NOW + 10 * SECOND, 10_000),
            (0, 0),
        ] {
            let schedule = AtomicU64::new(found);
            assert_eq!(millis(&schedule, NOW, 100, 1000), most, "{found}");
        }
        // The longest pause, and the next one is no longer.
        let schedule = AtomicU64::new(NOW + 30 * SECOND);
        assert_eq!(millis(&schedule, NOW, usize::MAX, 1), 59_900);
        assert_eq!(millis(&schedule, NOW, usize::MAX, 1), 59_900);
        assert_eq!(millis(&AtomicU64::new(0), u64::MAX, usize::MAX, 1), 0, "no overflow");
    }

    /// Simulates connections that move as much as they may. Returns the bytes of each.
    fn moved(connections: usize, per_second: u64, seconds: u64) -> Vec<usize> {
        let words = Arc::new(SharedWords::private(1).unwrap());
        let piece = SharedRate::new(words, 0, per_second).unwrap().most_at_once();
        let schedule = AtomicU64::new(0);
        let mut state = vec![(NOW, 0); connections];
        let end = NOW + seconds * SECOND;
        while let Some((from, bytes)) = state.iter_mut().min_by_key(|(from, _)| *from)
            && *from < end
        {
            *bytes += piece;
            *from += nanos(pause(&schedule, *from, piece, per_second));
        }
        state.into_iter().map(|(_, bytes)| bytes).collect()
    }

    #[test]
    fn connections_share_the_rate_fairly() {
        for (connections, per_second) in [(1, 1_000_000), (2, 1_000_000), (10, 125_000_000), (5, 2000)] {
            let each = moved(connections, per_second, 20);
            let total: usize = each.iter().sum();
            let piece = (per_second / 40).max(1024) as usize;
            // A burst, and one piece of each connection that began before its place.
            let most = per_second as usize * 201 / 10 + (connections + 1) * piece;
            assert!(total <= most && total * 100 >= per_second as usize * 20 * 99, "{total} of {most}");
            let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
            assert!(most - least <= 5 * piece, "{least} to {most}");
        }
    }

    #[test]
    fn pieces_are_short() {
        let of = |per_second| {
            SharedRate::new(Arc::new(SharedWords::private(1).unwrap()), 0, per_second).unwrap().most_at_once()
        };
        assert_eq!((of(1_000_000), of(0)), (25_000, LEAST_PIECE));
        assert!(SharedRate::new(Arc::new(SharedWords::private(1).unwrap()), 1, 1).is_none());
    }
}
