//! `longhaul doctor HOST`: says what limits the path to a host (`doctor`). `longhaul bench HOST`: tables of a
//! path, and `longhaul compare` (`bench`). `longhaul report FILE…`: writes a self-contained page about
//! recorded connections (`Metrics` of `ssh_config`). `longhaul verify MANIFEST`: checks a copy against its
//! manifest (`verify`). `longhaul transfers` lists unfinished copies (`transfers`). `longhaul sessions` lists
//! the sessions of `lhsshd` on this host (`sessions`).

mod bench;
mod csv;
mod doctor;
mod fault;
mod outage;
mod output;
mod page;
mod pairs;
mod records;
mod series;
mod sessions;
mod sftp;
mod summary;
mod transfers;
mod units;
mod verdict;
mod verify;
mod watch;

use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lh_cli::flags::{LONGHAUL, Parsed};
use lh_metrics::{ReadError, Run, read_runs, read_thinned_runs};

use crate::fault::Fault;

/// Exit status for files that cannot be read or written.
const FAILURE: u8 = 1;

/// The whole program: reads the command line of the process and returns its exit status.
pub fn main() -> ExitCode {
    let _ = lh_sys::fd::sanitize_stdio();
    lh_sys::signals::ignore_write_signals();
    ExitCode::from(start())
}

fn start() -> u8 {
    let parsed = match LONGHAUL.parse_anywhere(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(stop) => return stop.print(),
    };
    let Some((command, files)) = parsed.operands.split_first() else {
        return LONGHAUL
            .usage_error("nothing to do: try doctor, bench, compare, report, sessions, verify or transfers")
            .print();
    };
    let Some(chosen) = COMMANDS.iter().find(|known| command == known.name) else {
        let command = command.to_string_lossy();
        return LONGHAUL.usage_error(&format!("unknown command {}", command.escape_default())).print();
    };
    if let Some(flag) = parsed.given().find(|flag| !chosen.takes(flag)) {
        return LONGHAUL.usage_error(&format!("{}: has no flag {flag}", chosen.name)).print();
    }
    match chosen.name {
        "bench" => bench::run(&parsed, files),
        "compare" => records::run_compare(&parsed, files),
        "doctor" if parsed.has_long("watch") => watch::run(&parsed, files),
        "doctor" => doctor::run(&parsed, files),
        "verify" => verify::run(&parsed, files),
        "sessions" => sessions::run(&parsed, files),
        "transfers" => transfers::run(&parsed, files),
        _ => run_report(&parsed, files),
    }
}

/// Flags of connections, which subcommands that log in take.
const CONNECTING: &[&str] = &["-4", "-6", "-B", "-C", "-c", "-F", "-i", "-J", "-o", "-P", "-q", "-v"];

/// A subcommand.
struct Command {
    name: &'static str,
    /// It takes [`CONNECTING`] too.
    connects: bool,
    flags: &'static [&'static str],
}

impl Command {
    fn takes(&self, flag: &str) -> bool {
        self.flags.contains(&flag) || (self.connects && CONNECTING.contains(&flag))
    }
}

const COMMANDS: &[Command] = &[
    Command {
        name: "bench",
        connects: true,
        flags: &[
            "--hosts",
            "--html",
            "--json",
            "--local-dir",
            "--peer",
            "--quick",
            "--remote-dir",
            "--shard",
            "--tcp-port",
            "--time",
        ],
    },
    Command { name: "compare", connects: false, flags: &["--fail-below"] },
    Command { name: "doctor", connects: true, flags: &["--json", "--local-dir", "--remote-dir", "--watch"] },
    Command { name: "report", connects: false, flags: &["-o", "--csv"] },
    Command { name: "sessions", connects: false, flags: &["--end", "--json"] },
    Command { name: "transfers", connects: false, flags: &["--json", "--older-than"] },
    Command { name: "verify", connects: true, flags: &["--extra", "--in", "--json"] },
];

/// `longhaul report`.
fn run_report(parsed: &Parsed, files: &[OsString]) -> u8 {
    if files.is_empty() {
        return LONGHAUL.usage_error("report: no file").print();
    }
    let form = if parsed.has_long("csv") { Form::Csv } else { Form::Page };
    let text = match form {
        Form::Csv => Ok(None),
        Form::Page => records::report(files),
    };
    let text = text.and_then(|page| match page {
        Some(page) => Ok(page),
        None => report(files.iter().map(Path::new), form),
    });
    let done = text.and_then(|text| write_out(&text, &report_path(parsed, form)));
    done.map_or_else(|fault| fault.report(FAILURE), |()| 0)
}

/// The file that the report is written to.
fn report_path(parsed: &Parsed, form: Form) -> PathBuf {
    parsed.value('o').map_or_else(|| PathBuf::from(form.default_file()), PathBuf::from)
}

/// Format of the report.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// A page for a browser.
    Page,
    /// The samples as CSV.
    Csv,
}

impl Form {
    const fn default_file(self) -> &'static str {
        match self {
            Self::Page => "report.html",
            Self::Csv => "report.csv",
        }
    }
}

/// Samples of a run that a page is made from; its plots have fewer points.
const MOST_SAMPLES: usize = 20_000;

/// Reads files of metrics; returns the report.
fn report<'a>(files: impl Iterator<Item = &'a Path>, form: Form) -> Result<String, Fault> {
    let mut runs: Vec<(String, Run)> = Vec::new();
    for path in files {
        let name = path.display().to_string();
        let file = File::open(path).map_err(Fault::file(path))?;
        let from = BufReader::new(file);
        let read = match form {
            Form::Page => read_thinned_runs(from, MOST_SAMPLES),
            Form::Csv => read_runs(from),
        };
        let read = read.map_err(|fault| match fault {
            ReadError::Io(error) => Fault::file(path)(error),
            fault => Fault::content(path)(fault),
        })?;
        runs.extend(read.into_iter().map(|run| (name.clone(), run)));
    }
    let connections = pairs::pair(runs);
    Ok(match form {
        Form::Page => page::page(&connections),
        Form::Csv => csv::csv(&connections),
    })
}

/// Writes to a file, or to standard output (`-`).
fn write_out(text: &str, out: &Path) -> Result<(), Fault> {
    if out.as_os_str() == "-" {
        return output::print(text);
    }
    std::fs::write(out, text).map_err(Fault::file(out))
}
