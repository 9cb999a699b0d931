//! The scenarios, one module each.

mod busy;
mod by_workers;
mod connections;
mod crypto;
mod forward;
mod keys;
mod kills;
mod logins;
mod master;
mod measured;
mod memory;
mod pipeline;
mod resume;
mod scale;
mod setup;
mod threads;
mod transfer;
mod tree;
mod wan;

use crate::bench::Bench;
use crate::contestant::Contestants;
use crate::table::Table;

pub(crate) use resume::WITHOUT_RESUME;

pub(crate) use measured::{
    DIRECT, OF_IPERF, OPEN_TIMES, PIPED, SEAL_TIMES, SSH_CPU, START, STEADY_OF_IPERF, workers_text,
};

/// Runs the scenario with this name.
pub(crate) fn run(bench: &Bench, field: &Contestants, name: &str) -> Result<Vec<Table>, String> {
    match name {
        "pipe" => transfer::pipe(bench, field),
        "copy" => transfer::copy(bench, field),
        "small" => transfer::small(bench, field),
        "list" => transfer::list(bench, field),
        "setup" => setup::run(bench, field),
        "logins" => Ok(logins::run(bench, field)),
        "crypto" => crypto::run(bench),
        "memory" => memory::run(bench, field),
        "keys" => keys::run(bench, field),
        "scale" => scale::run(bench, field),
        "connections" => connections::run(bench, field),
        "resume" => resume::run(bench, field),
        "forward" => forward::run(bench, field),
        "kills" => kills::run(bench, field),
        "huge-tree" => tree::run(bench, field),
        "busy" => busy::run(bench, field),
        "wan" => wan::run(bench),
        _ => Err(format!("no scenario {name}")),
    }
}
