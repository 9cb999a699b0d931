//! CPU time of each thread of one connection, and the rate that it could reach with more cores.
//!
//! The worker threads of an end share the sealing or opening; the thread of its loop does the rest. The cost
//! of a megabyte in each thread depends little on the number of cores, so a small machine can measure it.

use std::collections::BTreeMap;
use std::fs;

use super::forward::session_to_transfer;
use super::measured::{server_processes, size_text, workers_text};
use crate::bench::Bench;
use crate::cipher_suite::CipherSuite;
use crate::contestant::{Contestants, Variation};
use crate::stats::{Better, Spread};
use crate::stream::Way;
use crate::table::{Role, Row, Table};
use crate::usage::schedstat_ns;

/// Numbers of workers whose threads are measured.
const WORKERS: [usize; 3] = [0, 1, 2];
/// Cores of an end for which rates are derived.
const CORES: [u32; 3] = [4, 8, 16];
/// Name of worker threads.
const WORKER: &str = "packets";

/// CPU time of the threads of one end for each megabyte, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Cost {
    /// The thread of the loop.
    main: f64,
    /// All workers together.
    workers: f64,
    /// Any other threads and processes.
    others: f64,
}

impl Cost {
    /// Rate by Amdahl's law, MB/s: the loop's work is serial, the workers' is divided among the cores.
    fn amdahl(&self, cores: u32) -> f64 {
        1e6 / (self.main + self.workers / f64::from(cores))
    }

    /// Rate at which the busiest thread has no idle time left, MB/s: the loop runs beside the workers, which
    /// use the other cores.
    fn saturated(&self, cores: u32) -> f64 {
        let each = self.workers / f64::from(cores.saturating_sub(1).max(1));
        1e6 / self.main.max(each)
    }
}

/// Threads by process and thread id: name and CPU time so far, nanoseconds.
type Threads = BTreeMap<(u32, u32), (String, u64)>;

fn threads_of(pids: &[u32]) -> Threads {
    let of = |&pid: &u32| {
        let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        entries.filter_map(move |entry| {
            let thread = entry.file_name().to_str()?.parse().ok()?;
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            let spent = schedstat_ns(&fs::read_to_string(entry.path().join("schedstat")).ok()?)?;
            Some(((pid, thread), (name.trim().to_owned(), spent)))
        })
    };
    pids.iter().flat_map(of).collect()
}

/// CPU time of the threads between two moments, per megabyte. The busiest thread that is not a worker is the
/// loop's.
fn cost(before: &Threads, after: &Threads, megabytes: f64) -> Cost {
    let mut cost = Cost::default();
    for (thread, (name, spent)) in after {
        let earlier = before.get(thread).map_or(0, |(_, spent)| *spent);
        let us = spent.saturating_sub(earlier) as f64 / 1000.0 / megabytes;
        if name == WORKER {
            cost.workers += us;
        } else {
            cost.others += us;
            cost.main = cost.main.max(us);
        }
    }
    cost.others -= cost.main;
    cost
}

/// Runs every number of workers in each round. Returns a table of the threads and one of the derived rates.
pub(super) fn run(bench: &Bench, field: &Contestants, suite: &CipherSuite) -> Vec<Table> {
    let with = Variation::of(suite);
    let (size, rounds) = (bench.options.size, bench.options.rounds);
    let title = format!("CPU of each thread, {}, {}", suite.name(), size_text(size));
    eprintln!("--- scale: {title}");
    let mut tables = Vec::new();
    let mut derived = Vec::new();
    let mut rows = Vec::new();
    for workers in WORKERS {
        for way in Way::BOTH {
            let mut ends: [Vec<Cost>; 2] = Default::default();
            let mut failure = None;
            for _ in 0..rounds {
                match measure(bench, field, &with, workers, way) {
                    Ok([client, server]) => {
                        ends[0].push(client);
                        ends[1].push(server);
                    }
                    Err(error) => failure = Some(error),
                }
            }
            let name = format!("{} {}", workers_text(workers), way.name());
            eprintln!("    {name:<24} {}", failure.as_deref().unwrap_or("measured"));
            for (end, costs) in ["client", "server"].iter().zip(&ends) {
                // A failure of a peer is only reported, and would not fail the run.
                let role = if failure.is_some() { Role::Ceiling } else { Role::Peer };
                let mut row = Row::new(format!("{name}, {end}"), role);
                row.failure.clone_from(&failure);
                for cost in costs {
                    row.add(&[
                        (MAIN, Better::Lower, cost.main),
                        (WORKERS_US, Better::Lower, cost.workers),
                        (OTHERS, Better::Lower, cost.others),
                    ]);
                }
                rows.push(row);
            }
            if workers == WORKERS[WORKERS.len() - 1] && failure.is_none() {
                derived.extend(rates(way, ends.map(|costs| median(&costs))));
            }
        }
    }
    tables.push(Table { scenario: "scale", title, rows });
    if !derived.is_empty() {
        let title = format!("derived for more cores at each end, {}, {}", suite.name(), size_text(size));
        tables.push(Table { scenario: "scale", title, rows: derived });
    }
    tables
}

/// Series of the thread of the loop.
const MAIN: &str = "loop µs/MB";
/// Series of the worker threads.
const WORKERS_US: &str = "workers µs/MB";
/// Series of all other threads.
const OTHERS: &str = "others µs/MB";

fn median(costs: &[Cost]) -> Cost {
    let of = |part: fn(&Cost) -> f64| {
        let values: Vec<f64> = costs.iter().map(part).collect();
        Spread::of(&values).map_or(0.0, |spread| spread.median)
    };
    Cost { main: of(|cost| cost.main), workers: of(|cost| cost.workers), others: of(|cost| cost.others) }
}

/// Rows with the rates that one connection can reach, limited by its slower end.
fn rates(way: Way, ends: [Cost; 2]) -> Vec<Row> {
    let slower = |rate: &dyn Fn(&Cost) -> f64| rate(&ends[0]).min(rate(&ends[1]));
    let row = |cores| {
        let mut row = Row::new(format!("{cores} cores, {}", way.name()), Role::Peer);
        row.add(&[
            ("MB/s by Amdahl", Better::Higher, slower(&|end| end.amdahl(cores))),
            ("MB/s of the busiest thread", Better::Higher, slower(&|end| end.saturated(cores))),
        ]);
        row
    };
    CORES.into_iter().map(row).collect()
}

/// Costs of the client and of the server.
fn measure(
    bench: &Bench,
    field: &Contestants,
    with: &Variation,
    workers: usize,
    way: Way,
) -> Result<[Cost; 2], String> {
    let megabytes = bench.options.size as f64 / 1e6;
    let mut session = session_to_transfer(bench, field.ours(), with, workers)?;
    let supervisor = session.server();
    let clients = session.clients();
    let look = || [threads_of(&clients), threads_of(&server_processes(supervisor))];
    let before = look();
    session.transfer(bench, way)?;
    let after = look();
    Ok([cost(&before[0], &after[0], megabytes), cost(&before[1], &after[1], megabytes)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b
    }

    #[test]
    fn rates_follow_amdahl_and_the_busiest_thread() {
        let cost = Cost { main: 100.0, workers: 600.0, others: 0.0 };
        assert!(close(cost.amdahl(4), 4000.0), "100 + 600 / 4 = 250 us");
        assert!(close(cost.amdahl(16), 1e6 / 137.5));
        assert!(close(cost.saturated(4), 5000.0), "three workers with 200 us each");
        assert!(close(cost.saturated(16), 10_000.0), "the loop with 100 us");
        let idle = Cost { main: 50.0, ..Cost::default() };
        assert!(close(idle.amdahl(4), 20_000.0) && close(idle.saturated(1), 20_000.0));
    }

    #[test]
    fn slower_end_limits_the_rate() {
        let (client, server) =
            (Cost { main: 100.0, ..Cost::default() }, Cost { main: 10.0, workers: 2000.0, others: 0.0 });
        let rows = rates(Way::Up, [client, server]);
        let shown: Vec<(&str, f64)> =
            rows.iter().map(|row| (row.name.as_str(), row.series[1].values[0])).collect();
        assert_eq!(shown.len(), 3);
        assert!(shown[0].0 == "4 cores, up" && close(shown[0].1, 1500.0), "{shown:?}");
        assert!(shown[2].0 == "16 cores, up" && close(shown[2].1, 1e6 / (2000.0 / 15.0)), "{shown:?}");
    }

    #[test]
    fn threads_are_told_apart_by_name() {
        let thread = |name: &str, ns| (name.to_owned(), ns);
        let before = Threads::from([((1, 1), thread("lhssh", 5_000_000)), ((1, 2), thread(WORKER, 0))]);
        let after = Threads::from([
            ((1, 1), thread("lhssh", 6_000_000)),
            ((1, 2), thread(WORKER, 3_000_000)),
            ((1, 3), thread(WORKER, 1_000_000)),
            ((1, 4), thread("signals", 200_000)),
        ]);
        let got = cost(&before, &after, 10.0);
        assert!(close(got.main, 100.0) && close(got.workers, 400.0) && close(got.others, 20.0), "{got:?}");
        let own = threads_of(&[std::process::id()]);
        assert!(own.values().any(|(_, spent)| *spent > 0), "{own:?}");
    }
}
