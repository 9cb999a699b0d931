//! `lh-campaign`: see the library's documentation; started by `cargo xtask explore`, `load`, `faults`, `cuts`
//! and `nightly`.

use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
usage: lh-campaign explore [--seconds N] [--seed N] [--only TEXT] [--servers] [--clients]
       lh-campaign load [--short] [--idle N] [--burst N] [--hostile N] [--honest N]
       lh-campaign faults [--rounds N] [--seconds N] [--seed N] [--only TEXT] [--small]
       lh-campaign cuts [--cuts N] [--seconds N] [--seed N] [--size MIB] [--only TEXT]
                        [--rate MBIT] [--each N] [--long-stops N]
       lh-campaign nightly [--files N] [--round-trip MS] [--only TEXT]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.split_first() {
        Some((command, rest)) => run(command, rest),
        None => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("lh-campaign: {text}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a campaign with its arguments.
type Campaign = fn(&[String]) -> Result<(), String>;

fn run(command: &str, args: &[String]) -> Result<(), String> {
    // The flags that take a value, and those that do not.
    let (valued, bare, campaign): (&[&str], &[&str], Campaign) = match command {
        "explore" => (&["--seconds", "--seed", "--only"], &["--servers", "--clients"], explore),
        "load" => (&["--idle", "--burst", "--hostile", "--honest"], &["--short"], load),
        // `load` starts this program again with this command.
        "hostile-clients" => (&["--port", "--count"], &[], hostile_clients),
        "faults" => (&["--rounds", "--seconds", "--seed", "--only"], &["--small"], faults),
        "cuts" => (
            &["--cuts", "--seconds", "--seed", "--size", "--only", "--rate", "--each", "--long-stops"],
            &[],
            cuts,
        ),
        "nightly" => (&["--files", "--round-trip", "--only"], &[], nightly),
        _ => return Err(USAGE.to_owned()),
    };
    let mut rest = args.iter().map(String::as_str);
    while let Some(arg) = rest.next() {
        if valued.contains(&arg) {
            rest.next().ok_or_else(|| format!("{arg} needs a value"))?;
        } else if !bare.contains(&arg) {
            return Err(format!("{command}: unknown argument {arg}\n{USAGE}"));
        }
    }
    campaign(args)
}

fn hostile_clients(args: &[String]) -> Result<(), String> {
    let port =
        number(args, "--port")?.and_then(|port| u16::try_from(port).ok()).ok_or("--port is missing")?;
    let count = number(args, "--count")?.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    lh_campaign::load::run_hostile_clients(port, count)
}

fn number(args: &[String], flag: &str) -> Result<Option<u64>, String> {
    let Some(at) = args.iter().position(|arg| arg == flag) else { return Ok(None) };
    let value = args.get(at + 1).ok_or_else(|| format!("{flag} needs a number"))?;
    value.parse().map(Some).map_err(|_| format!("{flag}: not a number: {value}"))
}

fn explore(args: &[String]) -> Result<(), String> {
    use lh_campaign::explore::{self, Peers};
    let duration = number(args, "--seconds")?.map(Duration::from_secs);
    let seed = number(args, "--seed")?.unwrap_or(1);
    let given = |flag: &str| args.iter().any(|arg| arg == flag);
    let peers = match (given("--servers"), given("--clients")) {
        (true, false) => Some(Peers::Servers),
        (false, true) => Some(Peers::Clients),
        _ => None,
    };
    explore::campaign(&explore::Plan { duration, seed, only: only(args), peers })
}

fn only(args: &[String]) -> Option<String> {
    args.iter().position(|arg| arg == "--only").and_then(|at| args.get(at + 1)).cloned()
}

fn faults(args: &[String]) -> Result<(), String> {
    use lh_campaign::faults;
    if let Some(outcome) = faults::in_namespace() {
        return outcome;
    }
    faults::campaign(&faults::Plan {
        rounds: number(args, "--rounds")?,
        duration: number(args, "--seconds")?.map(Duration::from_secs),
        seed: number(args, "--seed")?.unwrap_or(1),
        only: only(args),
        small: args.iter().any(|arg| arg == "--small"),
    })
}

fn nightly(args: &[String]) -> Result<(), String> {
    use lh_campaign::nightly::{Plan, campaign};
    campaign(&Plan {
        files: number(args, "--files")?,
        round_trip: number(args, "--round-trip")?,
        only: only(args),
    })
}

fn cuts(args: &[String]) -> Result<(), String> {
    use lh_campaign::cuts::{Plan, campaign};
    campaign(&Plan {
        cuts: number(args, "--cuts")?,
        duration: number(args, "--seconds")?.map(Duration::from_secs),
        seed: number(args, "--seed")?.unwrap_or(1),
        volume: number(args, "--size")?
            .map(|mib| usize::try_from(mib).unwrap_or(usize::MAX).saturating_mul(1 << 20)),
        only: only(args),
        rate: number(args, "--rate")?.map(|mbit| mbit.clamp(1, 100_000) * 1_000_000),
        each: number(args, "--each")?.map(|each| each.max(1)),
        long_stops: number(args, "--long-stops")?,
    })
}

fn load(args: &[String]) -> Result<(), String> {
    use lh_campaign::load::{Plan, campaign};
    let base = if args.iter().any(|arg| arg == "--short") { Plan::SHORT } else { Plan::LONG };
    let count = |flag: &str, otherwise: usize| -> Result<usize, String> {
        Ok(number(args, flag)?.map_or(otherwise, |count| usize::try_from(count).unwrap_or(usize::MAX)))
    };
    campaign(&Plan {
        idle: count("--idle", base.idle)?,
        burst: count("--burst", base.burst)?,
        hostile: count("--hostile", base.hostile)?,
        honest: count("--honest", base.honest)?,
    })
}
