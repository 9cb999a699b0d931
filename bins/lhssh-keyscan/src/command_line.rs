//! From flags to the query, the form of the output, and the hosts.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use lh_cli::flags::Parsed;
use lh_client::resolve::Family;
use lh_crypto::SshfpHash;

use crate::ask::Query;
use crate::error::PlanError;
use crate::hosts::Hosts;
use crate::key_kind::KeyKind;
use crate::printer::Printer;

/// Returns whether the command line names hosts, or a file of hosts.
pub(crate) fn names_hosts(parsed: &Parsed) -> bool {
    !parsed.operands.is_empty() || parsed.has('f')
}

/// Interprets the command line.
///
/// # Errors
/// A value is malformed, or a file cannot be read.
pub(crate) fn plan(parsed: &Parsed) -> Result<(Query, Printer, Hosts), PlanError> {
    let port = match parsed.text('p') {
        None => 22,
        Some(text) => match text.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(PlanError::Port(text)),
        },
    };
    let timeout = match parsed.text('T') {
        None => Duration::from_secs(5),
        Some(text) => match lh_config::units::parse_time(&text) {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
            _ => return Err(PlanError::Timeout(text)),
        },
    };
    let kinds = match parsed.text('t') {
        None => KeyKind::every(),
        Some(text) => KeyKind::parse(&text)?,
    };
    let family = match (parsed.has('4'), parsed.has('6')) {
        (true, false) => Family::Inet,
        (false, true) => Family::Inet6,
        _ => Family::Any,
    };
    let mut hashes = SshfpHash::ALL.to_vec();
    for option in parsed.values('O') {
        let option = option.to_string_lossy();
        let name = option.strip_prefix("hashalg=").ok_or(PlanError::Option)?;
        hashes = SshfpHash::ALL.into_iter().filter(|hash| hash.name == name).collect();
        if hashes.is_empty() {
            return Err(PlanError::Hash);
        }
    }
    let printer = Printer {
        port,
        quiet: parsed.has('q'),
        verbose: parsed.has('v'),
        hash_names: parsed.has('H'),
        sshfp: parsed.has('D').then_some(hashes),
        certificates: parsed.has('c'),
    };
    let query = Query { port, timeout, family, certificates: parsed.has('c'), kinds };
    Ok((query, printer, hosts(parsed)?))
}

/// The hosts to query, from the files, then from the command line.
fn hosts(parsed: &Parsed) -> Result<Hosts, PlanError> {
    let mut hosts = Hosts::default();
    for file in parsed.values('f') {
        let problem = |source| PlanError::File { path: PathBuf::from(file), source };
        let lines: Box<dyn std::io::BufRead> = if file == "-" {
            Box::new(BufReader::new(std::io::stdin()))
        } else {
            Box::new(BufReader::new(std::fs::File::open(file).map_err(problem)?))
        };
        for line in lines.split(b'\n') {
            let line = line.map_err(problem)?;
            hosts.add_line(&String::from_utf8_lossy(&line))?;
        }
    }
    for operand in &parsed.operands {
        hosts.add(&operand.to_string_lossy(), None)?;
    }
    Ok(hosts)
}
