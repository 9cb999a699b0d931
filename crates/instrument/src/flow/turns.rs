//! How the threads of an SSH process shared the processors with others (`schedstat`, proc(5)).

use std::collections::HashMap;

/// How a thread shared a processor with others, as parts of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Turns {
    /// It ran.
    pub(crate) ran: f64,
    /// It could have run, and another thread did.
    pub(crate) waited: f64,
}

impl Turns {
    /// The part of the time in which it ran or could have.
    pub(crate) const fn wanted(self) -> f64 {
        self.ran + self.waited
    }
}

/// Nanoseconds that each thread ran and waited for its turn, by the path of its `schedstat`.
pub(super) type ThreadTimes = HashMap<String, (u64, u64)>;

/// Lines of the form `PATH:RAN WAITED COUNT`, with a semicolon behind each (`/proc/PID/task/TID/schedstat`).
pub(super) fn thread_times(text: &str) -> ThreadTimes {
    let line = |line: &str| {
        let (path, times) = line.split_once(':')?;
        let mut times = times.split_whitespace().map_while(|time| time.parse().ok());
        Some((path.to_owned(), (times.next()?, times.next()?)))
    };
    text.split(';').filter_map(line).collect()
}

/// The times of the threads of this process; none where the system does not tell.
pub(super) fn own_thread_times() -> ThreadTimes {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return ThreadTimes::new() };
    let told = threads.flatten().filter_map(|thread| {
        let path = thread.path().join("schedstat");
        Some(format!("{}:{};", path.display(), std::fs::read_to_string(&path).ok()?))
    });
    thread_times(&told.collect::<String>())
}

/// The busiest thread between two looks, `seconds` apart.
pub(super) fn turns(before: &ThreadTimes, after: &ThreadTimes, seconds: f64) -> Option<Turns> {
    let part = |after: u64, before: u64| (after.saturating_sub(before) as f64 / 1e9 / seconds).min(1.0);
    after
        .iter()
        .map(|(thread, &(ran, waited))| {
            let (ran_before, waited_before) = before.get(thread).copied().unwrap_or_default();
            Turns { ran: part(ran, ran_before), waited: part(waited, waited_before) }
        })
        .max_by(|a, b| a.wanted().total_cmp(&b.wanted()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busiest_thread_is_the_one_that_ran_and_waited_most() {
        let before = thread_times("/proc/7/task/7/schedstat:1000000000 0 5;/proc/7/task/8/schedstat:0 0 0;");
        let after = thread_times(
            "/proc/7/task/7/schedstat:2200000000 2000000000 90;/proc/7/task/8/schedstat:900000000 9 9;;odd",
        );
        let got = turns(&before, &after, 4.0).unwrap();
        assert!((got.ran - 0.3).abs() < 1e-9 && (got.waited - 0.5).abs() < 1e-9, "{got:?}");
        assert_eq!(turns(&before, &thread_times("no such file"), 4.0), None);
        assert!(own_thread_times().values().any(|(ran, _)| *ran > 0));
    }
}
