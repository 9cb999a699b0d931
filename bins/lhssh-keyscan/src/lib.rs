//! `lhssh-keyscan`: collects the public keys of hosts, with the command line and the output of
//! ssh-keyscan(1).
//!
//! A number of threads query hosts, one connection at a time each, so that a slow or faulty host delays no
//! other. The host of every printed key has proven possession: the key has signed a key exchange.

mod ask;
mod error;
mod hosts;
mod key_kind;
mod printer;

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lh_cli::flags::{KEYSCAN, Parsed};
use lh_client::resolve::Family;
use lh_crypto::SshfpHash;

use crate::ask::Query;
use crate::error::PlanError;
use crate::hosts::Hosts;
use crate::key_kind::KeyKind;
use crate::printer::Printer;

/// Exit status when no key was found, and for a malformed port or time.
const FAILURE: u8 = 1;
/// Exit status of fatal errors in ssh-keyscan's sense.
const FATAL: u8 = 255;
/// Number of threads and thus connections at a time. Most of their time is spent waiting.
const THREADS: usize = 64;

/// The whole program: reads the command line of the process and returns its exit status.
pub fn main() -> ExitCode {
    // A file opened later must not get the number of a standard descriptor that was closed.
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_write_signals();
    ExitCode::from(start())
}

fn start() -> u8 {
    let parsed = match KEYSCAN.parse(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(stop) => return stop.print(),
    };
    if parsed.operands.is_empty() && !parsed.has('f') {
        eprint!("{}", KEYSCAN.usage());
        return FAILURE;
    }
    match plan(&parsed) {
        Ok((query, printer, hosts)) => {
            if scan(&query, &printer, hosts) {
                0
            } else {
                FAILURE
            }
        }
        Err(error) => {
            eprintln!("{error}");
            if error.is_malformed() { FAILURE } else { FATAL }
        }
    }
}

fn plan(parsed: &Parsed) -> Result<(Query, Printer, Hosts), PlanError> {
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

/// Runs all queries. True when a key was found.
fn scan(query: &Query, printer: &Printer, hosts: Hosts) -> bool {
    let jobs = Mutex::new(hosts.jobs(query.kinds.clone()));
    let found = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let work = || {
                while let Some(job) = jobs.lock().ok().and_then(|mut jobs| jobs.next()) {
                    if let Some(key) = ask::ask(query, &job, printer) {
                        found.store(true, Ordering::Relaxed);
                        printer.key(&job.names, &key);
                    }
                }
            };
            // When no further thread can be started, this one works too.
            if std::thread::Builder::new().stack_size(1 << 20).spawn_scoped(scope, work).is_err() {
                work();
                break;
            }
        }
    });
    found.into_inner()
}
