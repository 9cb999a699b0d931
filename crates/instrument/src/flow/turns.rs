//! How the threads of an SSH process shared the processors with others (`schedstat`, proc(5)).

use std::collections::HashMap;

use crate::shell::SHORT;
use crate::target::Remote;

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

/// How long threads have waited for their turn at a processor so far, seconds, and how often they ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Waits {
    seconds: f64,
    runs: f64,
}

/// The waits of a connection's ends; `None` where a system does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct TurnWaits {
    /// The calling thread.
    here: Option<Waits>,
    /// The threads of the server's SSH process.
    there: Option<Waits>,
}

impl TurnWaits {
    /// Time that a small message waited for both ends between two looks, seconds: each runs once for it. What
    /// else they did meanwhile, as the looks themselves, changes an average little.
    pub(crate) fn of_message(self, after: Self) -> Option<f64> {
        let of_end = |before: Option<Waits>, after: Option<Waits>| {
            let (before, after) = (before?, after?);
            Some((after.seconds - before.seconds).max(0.0) / (after.runs - before.runs).max(1.0))
        };
        Some(of_end(self.here, after.here)? + of_end(self.there, after.there)?)
    }
}

impl Remote {
    /// Looks at how long both ends of this connection have waited for their turn. Call it in the thread that
    /// drives the connection.
    pub(crate) fn turn_waits(&mut self) -> TurnWaits {
        let shown = self.script("grep -H . /proc/$PPID/task/*/schedstat 2>/dev/null | tr '\\n' ';'", SHORT);
        let here = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        TurnWaits {
            here: here.and_then(|times| waits(&format!("this:{times}"))),
            there: waits(&shown.text()),
        }
    }
}

/// Sums of the lines that [`thread_times`] reads.
fn waits(text: &str) -> Option<Waits> {
    let of_line = |line: &str| {
        let (_, times) = line.split_once(':')?;
        let mut times = times.split_whitespace().skip(1).map_while(|time| time.parse::<f64>().ok());
        Some(Waits { seconds: times.next()? / 1e9, runs: times.next()? })
    };
    let add = |a: Waits, b: Waits| Waits { seconds: a.seconds + b.seconds, runs: a.runs + b.runs };
    text.split(';').filter_map(of_line).reduce(add)
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
    fn message_waits_once_for_each_end() {
        let threads = "/proc/7/task/7/schedstat:5 1000000000 15;/proc/7/task/8/schedstat:0 500000000 5;";
        assert_eq!(waits(threads), Some(Waits { seconds: 1.5, runs: 20.0 }));
        assert_eq!(waits("no such file"), None);
        let look = |here: &str, there: &str| TurnWaits { here: waits(here), there: waits(there) };
        let before = look("this:9 250000000 5", "that:9 1000000000 10");
        assert_eq!(before.of_message(look("this:9 500000000 10", threads)), Some(0.1));
        assert_eq!(before.of_message(look("this:9 500000000 10", "")), None);
    }

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
