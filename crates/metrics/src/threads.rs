//! Detection of a thread that keeps a core busy.
//!
//! The CPU time of a whole process is not enough: several threads may use one core together while each of
//! them is idle part of the time.

use std::collections::BTreeMap;

use crate::{Point, Sample, ThreadTime};

/// Share of the time from which a thread limits a transfer. The remainder is waits between its system calls.
pub const FULL: f64 = 0.85;
/// Share of the time from which a thread counts as taking part.
pub const TAKES_PART: f64 = 0.05;

/// CPU use of a process's threads during a span of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Name of the busiest thread.
    pub busiest: String,
    /// Share of the time for which this thread ran, 0 to 1.
    pub share: f64,
    /// Number of threads that ran for at least [`TAKES_PART`] of the time.
    pub taking_part: usize,
}

/// Returns the threads of this process; none if the system does not report them.
pub fn own() -> Vec<ThreadTime> {
    let mut sample = Sample::default();
    sample.take_own_threads();
    sample.threads
}

impl Usage {
    /// True if the busiest thread had no idle time left.
    pub fn is_full(&self) -> bool {
        self.share >= FULL
    }

    /// Computes the use between the first and the last of these moments: seconds, and the threads at that
    /// time. Moments without threads are skipped. A thread that ends counts up to the last moment that
    /// includes it. `None` if fewer than two moments remain, or no time passes.
    pub fn between<'a>(moments: impl IntoIterator<Item = (f64, &'a [ThreadTime])>) -> Option<Self> {
        let mut known = moments.into_iter().filter(|(_, threads)| !threads.is_empty());
        let (begun, first) = known.next()?;
        let mut before: BTreeMap<u32, u64> =
            first.iter().map(|thread| (thread.id, thread.cpu_micros)).collect();
        let mut used: BTreeMap<u32, (&str, u64)> = BTreeMap::new();
        let mut ended = begun;
        for (at, threads) in known {
            ended = at;
            for thread in threads {
                let earlier = before.insert(thread.id, thread.cpu_micros).unwrap_or(0);
                // A smaller time belongs to a new thread that got the id of an ended one.
                let more = thread.cpu_micros.checked_sub(earlier).unwrap_or(thread.cpu_micros);
                let (name, all) = used.entry(thread.id).or_default();
                *name = &thread.name;
                *all = all.saturating_add(more);
            }
        }
        let micros = (ended - begun) * 1e6;
        let (name, most) = used.values().max_by_key(|(_, micros)| *micros).filter(|_| micros > 0.0)?;
        let taking_part = used.values().filter(|(_, used)| *used as f64 >= TAKES_PART * micros).count();
        Some(Self { busiest: (*name).to_owned(), share: (*most as f64 / micros).min(1.0), taking_part })
    }

    /// Computes the use between the first and the last of these samples.
    pub fn of<'a>(points: impl IntoIterator<Item = &'a Point>) -> Option<Self> {
        Self::between(points.into_iter().map(|point| (point.seconds, point.sample.threads.as_slice())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(times: &[(u32, u64)]) -> Vec<ThreadTime> {
        let name = |id: u32| if id == 1 { "main".to_owned() } else { format!("packets {id}") };
        let times = times.iter();
        times.map(|&(id, millis)| ThreadTime { id, name: name(id), cpu_micros: millis * 1000 }).collect()
    }

    fn usage(moments: &[&[(u32, u64)]]) -> Option<Usage> {
        let moments: Vec<Vec<ThreadTime>> = moments.iter().map(|times| threads(times)).collect();
        Usage::between(
            moments.iter().enumerate().map(|(second, threads)| (second as f64, threads.as_slice())),
        )
    }

    #[test]
    fn threads_that_share_the_work_are_not_full() {
        // The threads use 1.2 cores together; the first one also ran before.
        let got = usage(&[&[(1, 9000)], &[(1, 9300), (2, 300), (3, 300), (4, 300), (5, 10)]]).unwrap();
        assert_eq!((got.taking_part, got.is_full()), (4, false), "{got:?}");
        assert!((got.share - 0.3).abs() < 1e-9, "{got:?}");
        let got = usage(&[&[(1, 9000), (2, 0)], &[(1, 9100), (2, 950)]]).unwrap();
        assert_eq!((got.busiest.as_str(), got.taking_part, got.is_full()), ("packets 2", 2, true), "{got:?}");
    }

    #[test]
    fn threads_that_end_are_counted_while_they_run() {
        let got =
            usage(&[&[(1, 0)], &[(1, 10), (2, 980)], &[(1, 20), (2, 1960)], &[(1, 30)], &[(1, 40)]]).unwrap();
        assert_eq!((got.busiest.as_str(), got.is_full()), ("packets 2", false), "{got:?}");
        assert!((got.share - 0.49).abs() < 1e-9, "{got:?}");
        // The id is used by a second thread.
        let got = usage(&[&[(1, 0), (2, 700)], &[(1, 0), (2, 900)]]).unwrap();
        let again = usage(&[&[(1, 0), (2, 700)], &[(1, 0), (2, 200)]]).unwrap();
        assert_eq!(got.share, again.share);
    }

    #[test]
    fn one_moment_tells_nothing() {
        assert_eq!(usage(&[&[], &[(1, 5)], &[]]), None);
        let now = threads(&[(1, 5)]);
        assert_eq!(Usage::between([(1.0, now.as_slice()), (1.0, now.as_slice())]), None);
    }
}
