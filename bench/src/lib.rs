//! Longhaul beside other people's programs and beside what the machine can do, measured in one run.
//!
//! What is compared runs interleaved (A B C, A B C, …), so that whatever else the machine does meets all alike, and medians
//! are reported with their spread. Decisions that shaped it:
//!
//! * **Each end runs under a supervisor** ([`end`]): a small process of ours that adopts every orphan below it and reaps
//!   them all, so that `getrusage(RUSAGE_CHILDREN)` is the CPU time of *all* processes of that end, in microseconds,
//!   with nothing of the harness in it. See `docs/lab/2026-11-22-measurements.md` for what exactly is counted.
//! * **Ceilings are contestants like any other** ([`wire`]): raw TCP and the packet cipher over raw TCP run under the same
//!   supervisors, behind the same listener, in the same rounds.
//! * **A scenario is a table of closures** ([`table`]): it says what one run of each contestant is; rounds, medians, ratios
//!   and reports are made in one place.
//!
//! The binary `lh-bench` is started by `cargo xtask bench`, which builds everything first.

mod args;
mod bench;
mod cipher_suite;
mod contestant;
pub mod end;
mod job;
mod json;
mod machine;
pub mod piped;
mod report;
mod scenario;
pub mod stats;
pub mod stream;
pub mod table;
mod targets;
pub mod usage;
mod warm;
pub mod wire;

use std::process::ExitCode;

/// The binary: a measurement, or one of the helpers that the harness starts.
pub fn main(args: &[String]) -> ExitCode {
    let rest = args.get(1..).unwrap_or_default();
    let outcome = match args.first().map(String::as_str) {
        Some("end-client") => end::client::main(rest),
        Some("end-server") => end::server::main(rest),
        Some("tcp-source") => wire::source(rest),
        Some("tcp-sink") => wire::sink(rest),
        Some("piped-end") => piped::end(rest),
        Some(stream::END) => stream::end(rest),
        Some("tcp-relay") => stream::relay(rest),
        _ => bench::main(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("lh-bench: {text}");
            ExitCode::FAILURE
        }
    }
}
