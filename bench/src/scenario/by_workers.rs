//! Rates of sealing and opening, by the number of workers.

use std::cell::Cell;

use super::measured::{OPEN_TIMES, SEAL_TIMES, workers_text};
use crate::bench::Bench;
use crate::cipher_suite::CipherSuite;
use crate::stats::Better;
use crate::table::{Entry, Role, Table, interleave};

/// Rates of sealing and opening, MB/s.
type Rates = (f64, f64);

/// Returns the table of one suite, with a row for each of `counts`. `measure` returns the rates with a number
/// of workers.
pub(super) fn table(
    bench: &Bench,
    what: &str,
    suite: &CipherSuite,
    counts: &[usize],
    measure: &dyn Fn(usize) -> Result<Rates, String>,
) -> Table {
    // Rates of one worker in this round.
    let single = Cell::new((f64::NAN, f64::NAN));
    let mut entries = Vec::new();
    for &workers in counts {
        let single = &single;
        entries.push(Entry::new(workers_text(workers), Role::Peer, move || {
            let (seal, open) = measure(workers)?;
            if workers == 1 {
                single.set((seal, open));
            }
            let (one_seal, one_open) = single.get();
            Ok(vec![
                ("seal MB/s", Better::Higher, seal),
                ("open MB/s", Better::Higher, open),
                (SEAL_TIMES, Better::Higher, seal / one_seal),
                (OPEN_TIMES, Better::Higher, open / one_open),
            ])
        }));
    }
    let title = format!("{what} in memory, {}, packets of {} bytes", suite.name(), bench.options.packet);
    interleave("crypto", title, bench.options.rounds, entries)
}
