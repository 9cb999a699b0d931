//! Benchmarks of Longhaul, compared in one run with other programs and with the limits of the machine.
//!
//! Contestants run interleaved (A B C, A B C, …), so that other load on the machine affects all alike.
//! Medians are reported with their spread. Decisions that shaped this crate:
//!
//! * **Each end runs under a supervisor** ([`end`]): a small process that adopts and reaps every orphan below
//!   it, so that `getrusage(RUSAGE_CHILDREN)` is the CPU time of *all* processes of that end, in
//!   microseconds, without the harness. `docs/performance.md` describes exactly what is counted.
//! * **Ceilings are contestants like any other** ([`wire`]): raw TCP and the packet cipher over raw TCP run
//!   under the same supervisors, with the same listener, in the same rounds.
//! * **A scenario is a table of closures** ([`table`]): it defines one run of each contestant; rounds,
//!   medians, ratios and reports are implemented once.
//!
//! The binary `lh-bench` is started by `cargo xtask bench`, which builds everything first.

mod args;
mod bench;
mod cipher_suite;
mod contestant;
pub mod end;
mod fold;
mod job;
mod json;
mod load;
mod machine;
pub mod piped;
mod report;
mod run;
mod scenario;
pub mod stats;
pub mod stream;
pub mod table;
mod targets;
pub mod usage;
mod warm;
pub mod wire;

use std::process::ExitCode;

/// Entry point of the binary: runs a measurement, or one of the helpers that the harness starts.
pub fn main(args: &[String]) -> ExitCode {
    let rest = args.get(1..).unwrap_or_default();
    let outcome = match args.first().map(String::as_str) {
        Some("end-client") => end::client::main(rest),
        Some("end-server") => end::server::main(rest),
        Some(end::counted::NAME) => end::counted::main(rest),
        Some("tcp-source") => wire::source(rest),
        Some("tcp-sink") => wire::sink(rest),
        Some("piped-end") => piped::end(rest),
        Some(stream::END) => stream::end(rest),
        Some("--fold") => fold::main(rest),
        Some("tcp-relay") => stream::relay(rest),
        _ => run::main(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("lh-bench: {text}");
            ExitCode::FAILURE
        }
    }
}
