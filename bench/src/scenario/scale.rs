//! One connection over loopback with 0 to 8 workers at each end: the gain from more cores. The cost of each
//! thread is measured too; from it the rates on machines with more cores are derived.

use std::cell::Cell;

use super::measured::rate;
use crate::bench::Bench;
use crate::cipher_suite::CipherSuite;
use crate::contestant::{Contestants, Task, Variation};
use crate::job;
use crate::stats::Better;
use crate::table::{Entry, Role, Table, interleave};

/// The slowest and the fastest suite; the others are between them.
const SUITES: &[&str] = &["chacha20-poly1305", "aes256-gcm"];
/// Workers at each end, besides the loop's thread.
const WORKERS: &[usize] = &[0, 1, 2, 4, 8];

/// Downloads a file to standard output. Without workers it runs on every machine. Numbers of workers that
/// exceed the cores for both ends are left out.
pub(super) fn run(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let size = bench.options.size;
    let blob = bench.blob(size)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let ours = field.ours();
    let mut tables = Vec::new();
    for name in SUITES {
        let suite = CipherSuite::parse(name)?;
        let with = Variation::of(&suite);
        // Time without workers in this round.
        let alone = Cell::new(f64::NAN);
        let mut entries = Vec::new();
        // Up to two workers always take part, to show their effect where no core is spare.
        for &workers in WORKERS.iter().filter(|&&workers| workers <= 2 || 2 * (workers + 1) <= cores) {
            let (server, client) =
                (ours.server(bench, &with), ours.client(bench, &with, &Task::PipeDown(&blob)));
            let (Some(mut server), Some(mut client)) = (server, client) else { continue };
            for program in [&mut server.program, &mut client.program] {
                program.env.push(("LH_WORKERS".to_owned(), workers.to_string()));
            }
            let alone = &alone;
            entries.push(Entry::new(super::measured::workers_text(workers), Role::Peer, move || {
                let sample = job::run(bench, Some(&server), &client)?;
                if workers == 0 {
                    alone.set(sample.wall_s);
                }
                let mut run = vec![
                    ("GB/s", Better::Higher, size as f64 / 1e9 / sample.wall_s),
                    ("times no workers", Better::Higher, alone.get() / sample.wall_s),
                ];
                run.extend(rate(&sample, size).into_iter().skip(1));
                Ok(run)
            }));
        }
        let title = format!("one connection, {name}, {}, {cores} cores", super::measured::size_text(size));
        tables.push(interleave("scale", title, bench.options.rounds, entries));
        tables.extend(super::threads::run(bench, field, &suite));
    }
    Ok(tables)
}
