//! The client's end: runs a command, once or several times in a row, and reports wall time and usage.
//!
//! `lh-bench end-client --report FILE [--stdin FILE] [--feed SECONDS] [--meter yes] [--repeat N] [--parallel
//! N] [--limit SECONDS] -- PROGRAM [ARGUMENT…]`. Standard output goes to `/dev/null`; the environment is
//! inherited from the supervisor. With `--feed` the supervisor writes zeros to the program for that time,
//! with `--meter` it counts the program's output. Runs in parallel share the repetitions; the wall time is
//! then measured from the first start to the last end. The supervisor's own work is not counted.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use super::{EndArgs, Moved, Report, adopt_orphans, flow, reap_all, send, signal_all};
use crate::usage::Usage;

/// Time limit for leftover processes of a command.
const LEFTOVERS: Duration = Duration::from_secs(5);

/// Set when the time limit was reached.
static LATE: AtomicBool = AtomicBool::new(false);

/// Entry point of the helper.
///
/// # Errors
/// The command cannot be started or did not end with status 0; no report is written then.
pub fn main(args: &[String]) -> Result<(), String> {
    let args = EndArgs::parse(args)?;
    let [program, rest @ ..] = args.command else { return Err("no command".to_owned()) };
    let number = |name: &str, default: u64| {
        args.value(name).map_or(Ok(default), |text| text.parse().map_err(|_| format!("{name} {text}")))
    };
    let (repeat, limit) = (number("--repeat", 1)?, number("--limit", 300)?);
    let report = args.value("--report").ok_or("no --report")?;
    adopt_orphans()?;
    bound(Duration::from_secs(limit));

    let feed = args.value("--feed").map(str::parse).transpose().map_err(|_| "--feed".to_owned())?;
    let runs = Runs {
        program,
        args: rest,
        stdin: args.value("--stdin"),
        feed,
        meter: args.value("--meter").is_some(),
        limit,
    };
    let parallel = number("--parallel", 1)?.clamp(1, repeat.max(1));
    let (wall, moved) =
        if parallel == 1 { runs.in_a_row(repeat)? } else { runs.in_parallel(parallel, repeat)? };
    reap_all(LEFTOVERS);
    let wall_us = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
    let text = Report { wall_us, usage: Usage::of_children()?, moved };
    std::fs::write(report, text.to_text()).map_err(|error| format!("{report}: {error}"))
}

/// A command to run several times.
struct Runs<'a> {
    program: &'a str,
    args: &'a [String],
    stdin: Option<&'a str>,
    /// Seconds for which zeros are written to it.
    feed: Option<u64>,
    meter: bool,
    /// Seconds until the supervisor ends everything.
    limit: u64,
}

impl Runs<'_> {
    /// Runs it `repeat` times. Returns the time of the runs together, and the bytes of the last one.
    fn in_a_row(&self, repeat: u64) -> Result<(Duration, Moved), String> {
        let (mut wall, mut moved) = (Duration::ZERO, Moved::default());
        for _ in 0..repeat {
            let (took, bytes) = self.once()?;
            wall += took;
            moved = bytes;
        }
        Ok((wall, moved))
    }

    /// Shares `repeat` runs among `count` threads. Returns the time from the first start to the last end.
    fn in_parallel(&self, count: u64, repeat: u64) -> Result<(Duration, Moved), String> {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count)
                .map(|number| scope.spawn(move || self.in_a_row(share(number, count, repeat))))
                .collect();
            // The first error ends the run, after all threads have.
            let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            ended.into_iter().try_for_each(|runs| runs.map_err(|_| "a thread panicked".to_owned())?.map(drop))
        })?;
        Ok((start.elapsed(), Moved::default()))
    }

    fn once(&self) -> Result<(Duration, Moved), String> {
        let program = self.program;
        let stdin = match self.stdin {
            Some(path) => Stdio::from(File::open(path).map_err(|error| format!("{path}: {error}"))?),
            None if self.feed.is_some() => Stdio::piped(),
            None => Stdio::null(),
        };
        let stdout = if self.meter { Stdio::piped() } else { Stdio::null() };
        let mut command = Command::new(program);
        command.args(self.args).stdin(stdin).stdout(stdout);
        let start = Instant::now();
        let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or("no process id")?;
        let counting = match (self.feed, child.stdin.take(), child.stdout.take()) {
            (Some(seconds), Some(input), _) => Some(flow::feed(input, Duration::from_secs(seconds))),
            (_, _, Some(output)) => Some(flow::meter(output)),
            _ => None,
        };
        let ended =
            waitpid(Some(pid), WaitOptions::empty()).map_err(|error| format!("{program}: {error}"))?;
        let took = start.elapsed();
        let status = ended.and_then(|(_, status)| status.exit_status());
        if LATE.load(Ordering::Relaxed) {
            return Err(format!("{program} did not end within {} s", self.limit));
        }
        if status != Some(0) {
            return Err(format!("{program} ended with {status:?}"));
        }
        let moved = match counting {
            Some(counting) => counting.join().map_err(|_| "counting failed")?,
            None => Moved::default(),
        };
        Ok((took, moved))
    }
}

/// Returns how many of `repeat` runs the thread `number` of `count` makes; the shares differ by one at most.
const fn share(number: u64, count: u64, repeat: u64) -> u64 {
    repeat / count + if number < repeat % count { 1 } else { 0 }
}

/// Ends all processes when the time limit is reached, so that a hanging peer cannot block the bench.
fn bound(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        LATE.store(true, Ordering::Relaxed);
        signal_all(Signal::TERM);
        std::thread::sleep(Duration::from_secs(2));
        signal_all(Signal::KILL);
        // A supervisor that still runs waits for a process that cannot be killed.
        std::thread::sleep(Duration::from_secs(2));
        send(std::process::id(), Signal::KILL);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_all_runs() {
        let shares =
            |count, repeat| (0..count).map(|number| share(number, count, repeat)).collect::<Vec<_>>();
        assert_eq!(shares(4, 10), [3, 3, 2, 2]);
        assert_eq!(shares(3, 2), [1, 1, 0]);
    }
}
