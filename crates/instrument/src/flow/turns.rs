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

/// Waits of threads, by the path of their `schedstat`.
type ThreadWaits = HashMap<String, Waits>;

/// The waits of a connection's ends; none where a system does not tell.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TurnWaits {
    /// The calling thread.
    here: ThreadWaits,
    /// The threads of the server's SSH process.
    there: ThreadWaits,
}

impl TurnWaits {
    /// Time that a small message waited for both ends between two looks, seconds: each runs once for it. What
    /// else they did meanwhile, as the looks themselves, changes an average little. `None` where the looks
    /// have no thread of an end in common: the server has another process for each session.
    pub(crate) fn of_message(&self, after: &Self) -> Option<f64> {
        let of_end = |before: &ThreadWaits, after: &ThreadWaits| {
            let since = |(path, after): (&String, &Waits)| {
                let before = before.get(path)?;
                Some(Waits { seconds: after.seconds - before.seconds, runs: after.runs - before.runs })
            };
            let add = |a: Waits, b: Waits| Waits { seconds: a.seconds + b.seconds, runs: a.runs + b.runs };
            let sum = after.iter().filter_map(since).reduce(add)?;
            Some(sum.seconds.max(0.0) / sum.runs.max(1.0))
        };
        Some(of_end(&self.here, &after.here)? + of_end(&self.there, &after.there)?)
    }
}

impl Remote {
    /// Looks at how long both ends of this connection have waited for their turn. Call it in the thread that
    /// drives the connection.
    pub(crate) fn turn_waits(&mut self) -> TurnWaits {
        let shown = self.script("grep -H . /proc/$PPID/task/*/schedstat 2>/dev/null | tr '\\n' ';'", SHORT);
        let path = "/proc/thread-self/schedstat";
        let here = std::fs::read_to_string(path).map(|times| waits(&format!("{path}:{times}")));
        TurnWaits { here: here.unwrap_or_default(), there: waits(&shown.text()) }
    }
}

/// Waits of the lines that [`thread_times`] reads; what start-up files print is none.
fn waits(text: &str) -> ThreadWaits {
    let of_line = |line: &str| {
        let (path, times) =
            line.trim_start().split_once(':').filter(|(path, _)| path.starts_with("/proc/"))?;
        let mut times = times.split_whitespace().skip(1).map_while(|time| time.parse::<f64>().ok());
        Some((path.to_owned(), Waits { seconds: times.next()? / 1e9, runs: times.next()? }))
    };
    text.split(';').filter_map(of_line).collect()
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
        let here = |nanos: u64, runs: u64| format!("/proc/thread-self/schedstat:9 {nanos} {runs}");
        let there = |process: u32, [first, second]: [(u64, u64); 2]| {
            let path = format!("/proc/{process}/task/{process}");
            format!(
                "{path}/schedstat:5 {} {};{path}1/schedstat:0 {} {};",
                first.0, first.1, second.0, second.1
            )
        };
        let look = |here: &str, there: &str| TurnWaits { here: waits(here), there: waits(there) };
        let before = look(&here(250_000_000, 5), &there(7, [(600_000_000, 8), (400_000_000, 2)]));
        let now = here(500_000_000, 10);
        let after = |there: &str| before.of_message(&look(&now, there));
        assert_eq!(after(&there(7, [(1_000_000_000, 15), (500_000_000, 5)])), Some(0.1));
        assert_eq!(after(""), None);
        // A thread that is new counts nothing, and another process tells nothing of the one before.
        let more = "/proc/7/task/9/schedstat:0 9000000000 1;";
        assert_eq!(after(&(there(7, [(1_000_000_000, 15), (500_000_000, 5)]) + more)), Some(0.1));
        assert_eq!(after(&there(8, [(9_000_000_000, 15), (500_000_000, 5)])), None);
        assert!(waits("no such file;motd:5 1 1;").is_empty());
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
