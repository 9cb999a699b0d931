//! Forwards, jumps and shared connections. They are compared with a direct session and with relays without
//! SSH. Also measured: the start of a mux client, and a mux client's keystrokes beside another one's bulk.

mod carrier;

use std::path::Path;

pub(super) use carrier::session_to_transfer;
use carrier::{Carrier, carry};

use super::keys;
use super::master::Master;
use super::measured::{DIRECT, START, per_start, size_text};
use crate::bench::Bench;
use crate::contestant::{Contestants, Kind, Variation};
use crate::job::{Client, Program, Running, run_client};
use crate::stream::Way;
use crate::table::{Entry, Role, Table, interleave};

/// Consecutive starts of which one value is the mean.
const IN_A_ROW: u64 = 20;

/// Runs the scenario.
pub(super) fn run(bench: &Bench, field: &Contestants) -> Result<Vec<Table>, String> {
    let mut tables = Vec::new();
    for carrier in [Carrier::Local, Carrier::Dynamic, Carrier::Jump, Carrier::MuxClient] {
        for way in Way::BOTH {
            tables.push(bulk(bench, field, carrier, way)?);
        }
    }
    tables.push(start(bench, field));
    tables.extend(keys::mux_clients(bench, field)?);
    Ok(tables)
}

/// One long stream.
fn bulk(bench: &Bench, field: &Contestants, carrier: Carrier, way: Way) -> Result<Table, String> {
    let size = bench.options.size;
    let suite = &bench.options.suites[0];
    let with = Variation::of(suite);
    let mut entries = Vec::new();
    for who in &field.all {
        let with = with.clone();
        entries.push(match &who.kind {
            Kind::Suite { .. } => {
                Entry::new(&who.name, who.role(), move || carry(bench, who, &with, carrier, way))
            }
            _ => continue,
        });
    }
    let direct = with.clone();
    entries.push(Entry::new(DIRECT, Role::Ceiling, move || {
        carry(bench, field.ours(), &direct, Carrier::Direct, way)
    }));
    entries.push(Entry::new("raw TCP relays", Role::Ceiling, move || carrier::relays(bench, carrier, way)));
    let title = format!("{} {}, {}, {}", carrier.name(), way.name(), suite.name(), size_text(size));
    Ok(interleave("forward", title, bench.options.rounds, entries))
}

/// `true` through a running master.
fn start(bench: &Bench, field: &Contestants) -> Table {
    let times = if bench.options.smoke { 2 } else { IN_A_ROW };
    let with = Variation::of(&bench.options.suites[0]);
    let mut entries = Vec::new();
    for who in &field.all {
        let (Kind::Suite { ssh, .. }, Some(server)) = (&who.kind, who.server(bench, &with)) else { continue };
        for (what, flags, command) in [("", &[][..], Some("true")), (", -O check", &["-O", "check"], None)] {
            let role = if what.is_empty() { who.role() } else { Role::Ceiling };
            let (server, with) = (server.clone(), with.clone());
            entries.push(Entry::new(format!("{}{what}", who.name), role, move || {
                let running = Running::start(bench, &server)?;
                let master = Master::start(bench, ssh, &with, running.port)?;
                let mut args = master.args(flags);
                args.push(super::master::destination(bench));
                args.extend(command.map(str::to_owned));
                let client = Client { repeat: times, ..Client::new(Program::new(ssh, args)) };
                let report = run_client(bench, &client, running.port)
                    .map_err(|error| format!("{error} (server: {})", running.log_end()))?;
                Ok(per_start(&report, times))
            }));
        }
    }
    let nothing =
        Client { repeat: times, ..Client::new(Program::new(Path::new("true"), Vec::<String>::new())) };
    entries.push(Entry::new("starting true", Role::Ceiling, move || {
        Ok(per_start(&run_client(bench, &nothing, 0)?, times))
    }));
    interleave("forward", START.to_owned(), bench.options.rounds, entries)
}
