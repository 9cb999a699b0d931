//! The run from the command line to the report.

use std::fs;
use std::time::Instant;

use crate::args::Options;
use crate::bench::Bench;
use crate::contestant::Contestants;
use crate::machine::Machine;
use crate::{report, scenario};

/// Runs a measurement and writes the reports.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    let options = Options::parse(args)?;
    for program in ["lhssh", "lhscp", "lhsshd"] {
        let path = lh_interop::bin_dir().join(program);
        if !path.is_file() {
            return Err(format!("{} is not built; use `cargo xtask bench`", path.display()));
        }
    }
    let started = Instant::now();
    let bench = Bench::new(options)?;
    let contestants = Contestants::find(&bench)?;
    let mut machine = Machine::inspect(contestants.versions(), bench.user_text());
    if !machine.is_quiet() {
        eprintln!(
            "lh-bench: other work runs on this machine (load {}): the figures are not reliable",
            machine.load
        );
    }
    let mut tables = Vec::new();
    for name in &bench.options.scenarios {
        tables.extend(scenario::run(&bench, &contestants, name)?);
    }
    machine.finish();
    let command = report::command_line(args);
    let seconds = started.elapsed().as_secs();
    let document = report::Document { machine: &machine, command, seconds, tables: &tables };
    let out = &bench.options.out;
    fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    for (name, text) in [("report.md", document.markdown()), ("report.json", document.json())] {
        let path = out.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("{}", document.markdown());
    println!("written to {0}/report.md and {0}/report.json", out.display());
    // A failing peer is only reported; a failure of ours fails the run.
    let broken: Vec<String> = tables.iter().filter_map(report::our_failure).collect();
    if broken.is_empty() { Ok(()) } else { Err(broken.join("\n")) }
}
