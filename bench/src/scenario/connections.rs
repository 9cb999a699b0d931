//! One file over several connections at once: the gain from more cores when one thread at each end is the
//! limit, and whether `lhscp` chooses the right number by itself.

use std::path::Path;

use super::measured::{rate, size_text};
use super::transfer::{check_and_remove, warmed};
use crate::bench::Bench;
use crate::contestant::{Contestant, Contestants, Task, Variation};
use crate::job::{self, Client, Program};
use crate::table::{Entry, Role, Table, interleave};

/// Values of `-j`; `None` leaves the choice to `lhscp`.
const CONNECTIONS: [Option<usize>; 5] = [Some(1), Some(2), Some(4), Some(8), None];

/// Parts that are copied side by side for the ceiling.
const PARTS: u64 = 4;

/// Both directions with every cipher: Longhaul over each number of connections, Longhaul's client at
/// OpenSSH's server, OpenSSH's `scp`, and what the machine's memory permits.
pub(super) fn run(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let size = bench.options.size;
    let blob = bench.blob(size)?;
    let target = bench.data("copied");
    let stock = field.ours_with_stock_server();
    let mut tables = Vec::new();
    for suite in &bench.options.suites {
        let with = Variation::of(suite);
        for (way, task) in [("up", Task::Put(&blob, &target)), ("down", Task::Get(&blob, &target))] {
            let (blob, target) = (&blob, &target);
            let mut entries = Vec::new();
            for number in CONNECTIONS {
                let name = number.map_or_else(|| "automatic".to_owned(), |number| format!("-j {number}"));
                entries.extend(copy(bench, field.ours(), &with, &task, (blob, target), number, &name));
            }
            for (number, name) in
                [(Some(1), "at OpenSSH's server, -j 1"), (None, "at OpenSSH's server, automatic")]
            {
                let entry = |who| copy(bench, who, &with, &task, (blob, target), number, name);
                entries.extend(stock.as_ref().and_then(entry));
            }
            for peer in field.all.iter().filter(|who| who.is_suite() && who.role() == Role::Peer) {
                entries.extend(copy(bench, peer, &with, &task, (blob, target), None, &peer.name));
            }
            entries.push(ceiling(bench, blob, target, size));
            let title =
                format!("one file {way} over several connections, {}, {}", suite.name(), size_text(size));
            tables.push(interleave("connections", title, bench.options.rounds, entries));
        }
    }
    Ok(tables)
}

/// Copies a file to a target over a `number` of connections.
fn copy<'a>(
    bench: &'a Bench,
    who: &Contestant,
    with: &Variation,
    task: &Task<'_>,
    (blob, target): (&'a Path, &'a Path),
    number: Option<usize>,
    name: &str,
) -> Option<Entry<'a>> {
    let (server, mut client) = (who.server(bench, with)?, who.client(bench, with, task)?);
    if let Some(number) = number {
        client.program.args.splice(0..0, ["-j".to_owned(), number.to_string()]);
    }
    let mut first = true;
    // Longhaul's own row is the one without any option.
    let role = if who.role() == Role::Ours && number.is_none() { Role::Ours } else { Role::Peer };
    let copy = Entry::new(name, role, move || {
        let sample = job::run(bench, Some(&server), &client)?;
        check_and_remove(&mut first, blob, target)?;
        Ok(rate(&sample, bench.options.size))
    });
    Some(warmed(copy, blob, target))
}

/// Measures copies of `blob` by several processes of `dd`, without any network.
fn ceiling<'a>(bench: &'a Bench, blob: &'a Path, target: &'a Path, size: u64) -> Entry<'a> {
    let blocks = size.div_ceil(PARTS << 20);
    let script = format!(
        "for part in $(seq 0 {}); do dd if={} of={} bs=1M conv=notrunc status=none count={blocks} \
         skip=$((part * {blocks})) seek=$((part * {blocks})) & done; wait",
        PARTS - 1,
        blob.display(),
        target.display()
    );
    let client = Client::new(Program::new(Path::new("/bin/sh"), ["-c".to_owned(), script]));
    let mut first = true;
    let entry = Entry::new(format!("dd, {PARTS} processes"), Role::Ceiling, move || {
        let sample = job::run(bench, None, &client)?;
        check_and_remove(&mut first, blob, target)?;
        Ok(rate(&sample, size))
    });
    warmed(entry, blob, target)
}
