//! Finds what limits the path to a host: measurements of half a minute, and the causes that they show.

mod at_rest;
mod breaks;
mod budget;
mod buffers;
mod congestion;
mod connections;
mod delays;
mod diagnose;
mod facts;
mod finding;
mod gather;
mod home;
mod idle_session;
mod instruments;
mod jitter;
mod judged;
mod jump;
mod logins;
mod losses;
mod marks;
mod master;
mod memory;
mod name_service;
mod neighbours;
mod other_settings;
mod outages;
mod packets;
mod page;
mod processor;
mod refusals;
mod sftp_file;
mod sftp_rates;
mod shapers;
mod small_loss;
mod small_packets;
mod starved;
mod stopped;
mod swallowed;
mod throughput;
mod waits;

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::fault::Fault;
use crate::target::Target;
pub use facts::RunSettings;

/// What a run has found.
#[derive(Debug)]
pub struct Diagnosis {
    facts: facts::Facts,
    findings: Vec<finding::Finding>,
    seconds: f64,
}

/// Measures the path to a host, and finds what limits it. `tell` is told what is measured next.
///
/// # Errors
/// The host cannot be reached, or the login is refused: OpenSSH's words.
pub fn examine(
    target: &Target,
    wanted: &RunSettings,
    tell: &mut dyn FnMut(&str),
) -> Result<Diagnosis, Fault> {
    let begun = std::time::Instant::now();
    let facts = gather::gather(&mut connections::Connections::new(target, tell)?, wanted)?;
    let findings = diagnose::diagnose(&facts);
    Ok(Diagnosis { facts, findings, seconds: begun.elapsed().as_secs_f64() })
}

/// What `--json` prints where there is no diagnosis.
pub fn failure(host: &str, why: &str) -> Value {
    page::failure(host, why)
}

impl Diagnosis {
    /// The page for a terminal.
    pub fn text(&self) -> String {
        page::text(&self.facts, &self.findings, self.seconds)
    }

    /// The data; docs/metrics.md has the members.
    pub fn json(&self) -> Value {
        page::json(&self.facts, &self.findings, self.seconds)
    }
}
