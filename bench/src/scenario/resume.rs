//! The cost of resumable sessions when no connection breaks: the programs with and without `Resume`, in
//! turns.

use super::measured::{rate, size_text};
use crate::bench::Bench;
use crate::contestant::{Contestants, Task, Variation};
use crate::job;
use crate::stats::Better;
use crate::table::{Entry, Measured, Role, Table, interleave};

/// Logins of one run: one alone is too short to be measured.
const LOGINS: u64 = 20;

/// Name of the row that the cost is compared with.
pub(crate) const WITHOUT_RESUME: &str = "longhaul, Resume no";

/// Pipes in both directions with every cipher, and short commands.
pub(super) fn run(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let size = bench.options.size;
    let blob = bench.blob(size)?;
    let mut tables = Vec::new();
    for suite in &bench.options.suites {
        for (way, task) in [("down", Task::PipeDown(&blob)), ("up", Task::PipeUp(&blob))] {
            let title = format!("exec pipe {way} with Resume, {}, {}", suite.name(), size_text(size));
            let judge = move |sample: &job::Sample| rate(sample, size);
            let entries = pair(bench, field, &Variation::of(suite), &task, judge);
            tables.push(interleave("resume", title, bench.options.rounds, entries));
        }
    }
    let logins = if bench.options.smoke { 2 } else { LOGINS };
    let judge = move |sample: &job::Sample| {
        vec![
            ("ms", Better::Lower, sample.wall_s * 1000.0 / logins as f64),
            ("CPU-ms", Better::Lower, sample.cpu_ms() / logins as f64),
        ]
    };
    let entries = pair(bench, field, &Variation::default(), &Task::Nothing(logins), judge);
    let title = format!("`true` with Resume, each of {logins}");
    tables.push(interleave("resume", title, bench.options.rounds, entries));
    Ok(tables)
}

/// Our programs with `Resume`, and without it as the baseline.
fn pair<'a>(
    bench: &'a Bench,
    field: &Contestants,
    with: &Variation,
    task: &Task<'_>,
    judge: impl Fn(&job::Sample) -> Vec<Measured> + Copy + 'a,
) -> Vec<Entry<'a>> {
    let settings = [("longhaul, Resume yes", Role::Ours, true), (WITHOUT_RESUME, Role::Peer, false)];
    let entry = |(name, role, resume): (&'static str, Role, bool)| {
        let with = Variation { resume: Some(resume), ..with.clone() };
        let (server, client) = (field.ours().server(bench, &with)?, field.ours().client(bench, &with, task)?);
        Some(Entry::new(name, role, move || Ok(judge(&job::run(bench, Some(&server), &client)?))))
    };
    settings.into_iter().filter_map(entry).collect()
}
