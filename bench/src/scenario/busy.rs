//! A busy server: simultaneous downloads and uploads beside idle terminals and terminals at which keys are
//! pressed. The result is compared with one connection to this server.

use std::time::Duration;

use lh_crypto::PrivateKey;

use super::measured::server_processes;
use crate::bench::Bench;
use crate::contestant::{Contestant, Contestants, Kind, Variation};
use crate::job::{Running, Server};
use crate::load::{Account, Load, Moved, Task};
use crate::stats::{Better, percentile};
use crate::table::{Entry, Measured, Table, interleave};
use crate::usage::{Memory, sleeps, so_far_us};

/// Idle terminals for each download.
const TERMINALS: usize = 5;

/// Terminals at which keys are pressed.
const TYPED_AT: usize = 20;

/// Sizes of a run.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    transfers: usize,
    terminals: usize,
    typed_at: usize,
    duration: Duration,
}

/// Runs the scenario.
pub(super) fn run(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let options = &bench.options;
    let transfers = if options.smoke { 3 } else { options.load.transfers };
    let sizes = Sizes {
        transfers,
        terminals: if options.smoke { None } else { options.load.terminals }.unwrap_or(transfers * TERMINALS),
        typed_at: TYPED_AT.min(transfers),
        duration: if options.smoke { Duration::from_millis(500) } else { options.duration },
    };
    let suite = &options.suites[0];
    let with = Variation::of(suite);
    let path = bench.lab.path(&format!("user_{}", with.user_key()));
    let text = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let (key, _) = PrivateKey::parse(&text, None).map_err(|error| format!("{}: {error}", path.display()))?;
    let user = bench.user();
    let (user, key) = (user.as_str(), &key);
    let entry = |who: &Contestant| {
        let server = who.server(bench, &with)?;
        Some(Entry::new(&who.name, who.role(), move || {
            measure(bench, &server, &Account { user, key }, suite.cipher.name, sizes)
        }))
    };
    let suites = field.all.iter().filter(|who| matches!(who.kind, Kind::Suite { .. }));
    let title = format!(
        "{transfers} downloads and {transfers} uploads at once, {} idle terminals, {} typed at, {}",
        sizes.terminals,
        sizes.typed_at,
        suite.name()
    );
    Ok(vec![interleave("busy", title, options.rounds, suites.filter_map(entry).collect())])
}

fn measure(
    bench: &Bench,
    server: &Server,
    account: &Account<'_>,
    cipher: &str,
    sizes: Sizes,
) -> Result<Vec<Measured>, String> {
    let running = Running::start(bench, server)?;
    let address = (bench.options.hosts.address.as_str(), running.port);
    let failed = |error: String| format!("{error} (server: {})", running.log_end());
    let alone = |task| {
        let mut load = Load::new(address, account, cipher)?;
        load.add(task, 1)?;
        let moved = load.measure(sizes.duration / 4)?;
        Ok(total(&moved))
    };
    let (down, up) = (alone(Task::Download).map_err(failed)?, alone(Task::Upload).map_err(failed)?);
    let new = || Load::new(address, account, cipher);
    let (mut terminals, mut bulk) = (new()?, new()?);
    let before = memory(&running);
    terminals.add(Task::Idle, sizes.terminals).map_err(failed)?;
    let idle = memory(&running);
    terminals.add(Task::Keys, sizes.typed_at).map_err(failed)?;
    let quiet = terminals.measure(sizes.duration / 4).map_err(failed)?.echoes;
    bulk.add(Task::Download, sizes.transfers).map_err(failed)?;
    bulk.add(Task::Upload, sizes.transfers).map_err(failed)?;
    // The terminals run in another thread, so that no echo waits for the generator's own bulk data.
    let started = Work::of(&running);
    let (typed, moved) = std::thread::scope(|scope| {
        let typed = scope.spawn(|| terminals.measure(sizes.duration));
        let moved = bulk.measure(sizes.duration);
        (typed.join().unwrap_or_else(|_| Err("the generator panicked".to_owned())), moved)
    });
    let worked = Work::of(&running);
    let (echoes, moved) = (typed.map_err(failed)?.echoes, moved.map_err(failed)?);
    let busy = memory(&running);
    let together = total(&moved);
    let mut run = vec![
        ("MB/s, all", Better::Higher, together),
        // Both directions share the machine: their mean is what one connection would have moved.
        ("% of one connection", Better::Higher, 100.0 * together / ((down + up) / 2.0)),
        ("slowest, % of mean", Better::Higher, slowest(&moved.down).min(slowest(&moved.up))),
    ];
    run.extend(worked.per_mb(started, together * moved.seconds));
    for (name, echoes, q) in [
        ("echo ms, median", &echoes, 0.5),
        ("echo ms, 99 %", &echoes, 0.99),
        ("echo ms, 99 %, before", &quiet, 0.99),
    ] {
        let ms: Vec<f64> = echoes.iter().map(|time| time.as_secs_f64() * 1000.0).collect();
        run.extend(percentile(&ms, q).map(|ms| (name, Better::Lower, ms)));
    }
    if let (Some(before), Some(idle), Some(busy)) = (before, idle, busy) {
        run.extend(memory_a_session([before, idle, busy], sizes));
    }
    Ok(run)
}

/// CPU time and sleeps of the server's processes so far, without the commands.
#[derive(Debug, Clone, Copy)]
struct Work {
    cpu_us: u64,
    sleeps: u64,
}

impl Work {
    fn of(running: &Running) -> Self {
        let pids = server_processes(running.pid());
        let sum = |of: fn(u32) -> u64| pids.iter().map(|&pid| of(pid)).sum();
        Self { cpu_us: sum(so_far_us), sleeps: sum(sleeps) }
    }

    /// The work since `before`, per megabyte. It depends less than rates on other load of the machine.
    fn per_mb(self, before: Self, megabytes: f64) -> [Measured; 2] {
        let per = |now: u64, then: u64| now.saturating_sub(then) as f64 / megabytes;
        [
            ("server CPU-ms/MB", Better::Lower, per(self.cpu_us, before.cpu_us) / 1000.0),
            ("server sleeps/MB", Better::Lower, per(self.sleeps, before.sleeps)),
        ]
    }
}

/// Rate of all transfers, MB/s.
fn total(moved: &Moved) -> f64 {
    moved.down.iter().chain(&moved.up).sum::<u64>() as f64 / 1e6 / moved.seconds
}

/// Bytes of the slowest, in percent of the mean.
fn slowest(bytes: &[u64]) -> f64 {
    let mean = bytes.iter().sum::<u64>() as f64 / bytes.len().max(1) as f64;
    bytes.iter().min().map_or(0.0, |&least| 100.0 * least as f64 / mean)
}

/// Memory of the server's processes, without the commands.
fn memory(running: &Running) -> Option<Memory> {
    let pids = server_processes(running.pid());
    // A process that has just ended cannot be inspected.
    pids.iter().filter_map(|&pid| Memory::of(&[pid])).reduce(Memory::plus)
}

/// Growth of the server's memory for each session, from its memory without sessions, with the idle ones, and
/// with all. Shared pages count once in the PSS, and for every process in the RSS.
fn memory_a_session([before, idle, busy]: [Memory; 3], sizes: Sizes) -> [Measured; 4] {
    let kib = |more: u64, less: u64, count: usize| more.saturating_sub(less) as f64 / count.max(1) as f64;
    let working = 2 * sizes.transfers + sizes.typed_at;
    [
        ("PSS KiB an idle session", Better::Lower, kib(idle.pss_kib, before.pss_kib, sizes.terminals)),
        ("PSS KiB a busy session", Better::Lower, kib(busy.pss_kib, idle.pss_kib, working)),
        ("RSS KiB an idle session", Better::Lower, kib(idle.rss_kib, before.rss_kib, sizes.terminals)),
        ("RSS KiB a busy session", Better::Lower, kib(busy.rss_kib, idle.rss_kib, working)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_since_the_start_for_each_megabyte() {
        let (start, end) = (Work { cpu_us: 1000, sleeps: 5 }, Work { cpu_us: 5000, sleeps: 25 });
        let [cpu, sleeps] = end.per_mb(start, 10.0);
        assert_eq!((cpu.2, sleeps.2), (0.4, 2.0));
    }

    #[test]
    fn memory_is_the_growth_for_each_session() {
        let sizes = Sizes { transfers: 4, terminals: 10, typed_at: 2, duration: Duration::ZERO };
        let memory = |pss_kib, rss_kib| Memory { pss_kib, rss_kib, private_kib: 0 };
        let growth = memory_a_session([memory(100, 1000), memory(600, 2000), memory(800, 4000)], sizes);
        assert_eq!(growth.map(|(_, _, value)| value), [50.0, 20.0, 100.0, 200.0]);
    }

    #[test]
    fn fairness_is_the_share_of_the_slowest() {
        assert_eq!(slowest(&[10, 20, 30]), 50.0);
        assert_eq!(slowest(&[]), 0.0);
    }
}
