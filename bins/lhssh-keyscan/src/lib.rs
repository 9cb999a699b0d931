//! `lhssh-keyscan`: collects the public keys of hosts, with the command line and the output of
//! ssh-keyscan(1).
//!
//! A number of threads query hosts, one connection at a time each, so that a slow or faulty host delays no
//! other. The host of every printed key has proven possession: the key has signed a key exchange.

mod ask;
mod command_line;
mod error;
mod hosts;
mod key_kind;
mod printer;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use lh_cli::flags::KEYSCAN;

use crate::ask::Query;
use crate::command_line::{names_hosts, plan};
use crate::hosts::Hosts;
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
    if !names_hosts(&parsed) {
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
