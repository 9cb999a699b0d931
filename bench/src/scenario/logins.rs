//! Rate of logins: clients that run `true`, several at the same time.

use std::num::NonZero;

use crate::bench::Bench;
use crate::contestant::{Contestants, Kind, Task, Variation};
use crate::job::{self, Client, Sample};
use crate::stats::Better;
use crate::table::{Entry, Measured, Table, interleave};

/// Runs the scenario with the programs' default algorithms and Ed25519 keys for host and user.
pub(super) fn run(bench: &Bench, field: &Contestants) -> Vec<Table> {
    let options = &bench.options;
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (logins, parallel) =
        if options.smoke { (4, 2) } else { (options.load.logins, options.load.parallel.unwrap_or(cores)) };
    let with = Variation::default();
    let mut entries = Vec::new();
    for who in field.all.iter().filter(|who| !matches!(who.kind, Kind::Mover { .. })) {
        let (Some(server), Some(client)) =
            (who.server(bench, &with), who.client(bench, &with, &Task::Nothing(logins)))
        else {
            continue;
        };
        let client = Client { parallel, ..client };
        entries.push(Entry::new(&who.name, who.role(), move || {
            Ok(rates(&job::run(bench, Some(&server), &client)?, logins))
        }));
    }
    let title =
        format!("{logins} logins (`true`) {parallel} at a time, {} keys, {cores} cores", with.user_key());
    vec![interleave("logins", title, options.rounds, entries)]
}

/// Rates, and the cost of one login. A core that runs nothing but both ends of logins makes one login in its
/// CPU time.
fn rates(sample: &Sample, logins: u64) -> Vec<Measured> {
    let each = |ms: f64| ms / logins as f64;
    let both = each(sample.cpu_ms());
    vec![
        ("logins/s and core", Better::Higher, 1000.0 / both),
        ("logins/s", Better::Higher, logins as f64 / sample.wall_s),
        ("CPU-ms a login", Better::Lower, both),
        ("client CPU-ms", Better::Lower, each(sample.client.cpu_us() as f64 / 1000.0)),
        ("server CPU-ms", Better::Lower, each(sample.server.cpu_us() as f64 / 1000.0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::Usage;

    #[test]
    fn rate_of_a_core_counts_both_ends() {
        let usage = |us| Usage { user_us: us, ..Usage::default() };
        let sample =
            Sample { wall_s: 0.5, client: usage(200_000), server: usage(300_000), ..Sample::default() };
        let values: Vec<f64> = rates(&sample, 50).into_iter().map(|(_, _, value)| value).collect();
        assert_eq!(values, [100.0, 100.0, 10.0, 4.0, 6.0]);
    }
}
