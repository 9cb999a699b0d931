//! `longhaul bench HOST`, and `longhaul compare OLD NEW`.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lh_cli::flags::{LONGHAUL, Parsed};
use lh_client::Destination;
use lh_instrument::bench::{
    Pair, Plan, Results, compare, matrix, matrix_page, measure, page, read_pairs, text,
};
use lh_instrument::quoted;
use lh_sys::errno_text;
use lh_sys::signals;
use lh_transfer::Shard;
use rustix::process::Signal;
use serde_json::Value;

use crate::doctor::{progress, target};
use crate::words::say;

/// Exit statuses.
const FAILURE: u8 = 1;
const CANNOT: u8 = 255;
const INTERRUPTED: u8 = 130;

/// Time of the measured rounds.
const TIME: Duration = Duration::from_secs(120);
const QUICK: Duration = Duration::from_secs(20);

/// Flags that clients of the connection get too.
const OF_CLIENTS: &[char] = &['4', '6', 'C', 'F', 'J', 'i', 'o'];

/// Flags that a host gets that measures in place of this one.
const OF_MEASUREMENTS: &[&str] = &["local-dir", "peer", "remote-dir", "tcp-port"];

/// `longhaul bench`; returns the exit status.
pub(crate) fn run(parsed: &Parsed, operands: &[OsString]) -> u8 {
    let done = match (parsed.long_value("hosts"), operands) {
        (Some(list), []) => run_hosts(parsed, Path::new(list)),
        (None, [host]) => {
            let host = host.to_string_lossy();
            let done = run_one(parsed, &host);
            if let (Err(why), true) = (&done, parsed.has_long("json")) {
                println!("{}", Results::failure(&host, why));
            }
            done
        }
        _ => return LONGHAUL.usage_error("bench: give one host, or --hosts").print(),
    };
    done.unwrap_or_else(|why| {
        say(&why);
        CANNOT
    })
}

/// Returns what becomes true with the first signal, and stays so. The signals are not blocked, because clients that are
/// started would inherit that, and never end when they are told to.
fn stopper() -> Result<impl Fn() -> bool, String> {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP];
    signals::on_first(&signals, drop).map_err(|error| errno_text(&error))?;
    Ok(signals::has_come)
}

fn run_one(parsed: &Parsed, host: &str) -> Result<u8, String> {
    let stop = stopper()?;
    let target = target(parsed, host)?;
    let plan = plan(parsed, host)?;
    check_peers(&plan.peers)?;
    let mut tell = progress(parsed.has('q'));
    let measured = measure(&target, &plan, &stop, &mut tell);
    tell("");
    let results = measured?;
    write_page(parsed, || page(std::slice::from_ref(&results)))?;
    let out = if parsed.has_long("json") { format!("{}\n", results.json()) } else { text(&results) };
    std::io::stdout().write_all(out.as_bytes()).map_err(|error| errno_text(&error))?;
    Ok(if stop() { INTERRUPTED } else { 0 })
}

/// Writes the page where `--html` asks for one.
fn write_page(parsed: &Parsed, page: impl FnOnce() -> String) -> Result<(), String> {
    let Some(path) = parsed.long_value("html").map(Path::new) else { return Ok(()) };
    std::fs::write(path, page()).map_err(|error| format!("{}: {}", path.display(), errno_text(&error)))
}

fn plan(parsed: &Parsed, host: &str) -> Result<Plan, String> {
    let place = Destination::parse(host).map_err(|error| error.to_string())?;
    let mut client_words = Vec::new();
    for (flag, value) in &parsed.flags {
        if OF_CLIENTS.contains(flag) {
            client_words.push(format!("-{flag}"));
            client_words.extend(value.as_ref().map(|value| value.to_string_lossy().into_owned()));
        }
    }
    let port = place.port.map(|port| port.to_string()).or_else(|| parsed.text('P'));
    let ours = [("Port", port), ("User", place.user.clone()), ("Ciphers", parsed.text('c'))];
    for (keyword, value) in ours {
        client_words
            .extend(value.into_iter().flat_map(|value| ["-o".to_owned(), format!("{keyword}={value}")]));
    }
    let peers = peers(parsed)?;
    let quick = parsed.has_long("quick");
    Ok(Plan {
        tcp_port: tcp_port(parsed)?,
        time: if quick { QUICK } else { TIME },
        quick,
        peers,
        client_words,
        destination: place.host,
        local_directory: parsed.long_value("local-dir").map_or_else(|| PathBuf::from("."), PathBuf::from),
        remote_directory: parsed.long_text("remote-dir").unwrap_or_else(|| ".".to_owned()),
    })
}

/// Names and programs of `--peer`.
fn peers(parsed: &Parsed) -> Result<Vec<(String, PathBuf)>, String> {
    let given =
        parsed.long.iter().filter(|(flag, _)| *flag == "peer").filter_map(|(_, value)| value.as_ref());
    let of = |peer: &OsString| {
        let peer = peer.to_string_lossy();
        let (name, path) = peer.split_once('=').ok_or_else(|| format!("--peer {peer}: NAME=PROGRAM"))?;
        Ok((name.to_owned(), PathBuf::from(path)))
    };
    given.map(of).collect()
}

/// Fails where a program of `--peer` is not on this machine.
fn check_peers(peers: &[(String, PathBuf)]) -> Result<(), String> {
    match peers.iter().find(|(_, path)| !path.is_file()) {
        None => Ok(()),
        Some((name, path)) => {
            let path = path.display();
            Err(format!("--peer {name}={path}: {path}: No such file or directory"))
        }
    }
}

fn tcp_port(parsed: &Parsed) -> Result<Option<u16>, String> {
    match parsed.long_text("tcp-port").map(|text| text.parse::<u16>()) {
        None => Ok(None),
        Some(Ok(port @ 1..)) => Ok(Some(port)),
        Some(_) => Err("--tcp-port takes a number from 1 to 65535".to_owned()),
    }
}

/// The paths of a list, one after the other.
fn run_hosts(parsed: &Parsed, list: &Path) -> Result<u8, String> {
    let words = std::fs::read_to_string(list)
        .map_err(|error| format!("{}: {}", list.display(), errno_text(&error)))?;
    let all = read_pairs(&words).map_err(|why| format!("{}: {why}", list.display()))?;
    let shard = parsed.long_text("shard").map(|text| Shard::of_flag(&text)).transpose();
    let shard = shard.map_err(|bad| bad.to_string())?;
    let mine = |index: usize| shard.is_none_or(|shard| index % shard.of as usize == shard.number as usize);
    let stop = stopper()?;
    let mut pairs = Vec::new();
    for (index, (from, to)) in all.into_iter().enumerate().filter(|(index, _)| mine(*index)) {
        if stop() {
            break;
        }
        let mut tell = progress(parsed.has('q'));
        tell(&format!("path {}: {from} {to}", index + 1));
        let result =
            if from.is_empty() { from_here(parsed, &to, &stop) } else { from_there(parsed, &from, &to) };
        tell("");
        let pair = Pair { from, to, result };
        if parsed.has_long("json") {
            // Each as soon as it is there: a job that is cut off keeps what it has.
            writeln!(std::io::stdout(), "{}", pair.json()).map_err(|error| errno_text(&error))?;
        }
        pairs.push(pair);
    }
    write_page(parsed, || matrix_page(&pairs))?;
    if !parsed.has_long("json") {
        std::io::stdout().write_all(matrix(&pairs).as_bytes()).map_err(|error| errno_text(&error))?;
    }
    let failed = pairs.iter().any(|pair| pair.result.is_err());
    Ok(if stop() {
        INTERRUPTED
    } else if failed {
        FAILURE
    } else {
        0
    })
}

fn from_here(parsed: &Parsed, to: &str, stop: &dyn Fn() -> bool) -> Result<Results, String> {
    let plan = Plan { time: QUICK, quick: true, ..plan(parsed, to)? };
    check_peers(&plan.peers)?;
    measure(&target(parsed, to)?, &plan, stop, &mut |_| {})
}

/// The command for the host that measures. Flags about the measurement go there; those about the connection are for
/// the login to that host, which has a configuration of its own.
fn command_there(parsed: &Parsed, to: &str) -> String {
    let mut command = "longhaul bench --quick --json -q -B".to_owned();
    for (flag, value) in &parsed.long {
        if let (true, Some(value)) = (OF_MEASUREMENTS.contains(flag), value) {
            command.push_str(&format!(" --{flag} {}", quoted(&value.to_string_lossy())));
        }
    }
    command.push_str(&format!(" -- {}", quoted(to)));
    command
}

/// Has the first host measure the path to the second one, with the `longhaul` that is installed there.
fn from_there(parsed: &Parsed, from: &str, to: &str) -> Result<Results, String> {
    let plan = plan(parsed, from)?;
    let lhssh = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("lhssh")));
    let lhssh = lhssh.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("lhssh"));
    let done = Command::new(lhssh)
        .args(["-o", "BatchMode=yes"])
        .args(&plan.client_words)
        .arg(&plan.destination)
        .arg(command_there(parsed, to))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| errno_text(&error))?;
    let value: Value = serde_json::from_slice(&done.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&done.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no results");
        lh_client::sanitise(last)
    })?;
    Results::from_json(&value)
}

/// A line of JSON about one run or one path of a list.
enum Record {
    Run(Results),
    Path(Pair),
}

impl Record {
    /// The run; a path that could not be measured has none.
    fn into_run(self) -> Option<Results> {
        match self {
            Self::Run(run) => Some(run),
            Self::Path(pair) => pair.result.ok(),
        }
    }
}

/// The records of a file: the result of `bench --json`, or the lines of `bench --hosts --json`. `None` where it is
/// something else.
fn read(path: &Path) -> Result<Option<Vec<Record>>, String> {
    let name = path.display();
    let bytes = std::fs::read(path).map_err(|error| format!("{name}: {}", errno_text(&error)))?;
    let Ok(words) = String::from_utf8(bytes) else { return Ok(None) };
    let mut records = Vec::new();
    for line in words.lines().filter(|line| !line.trim().is_empty()) {
        let Ok(value) = serde_json::from_str::<Value>(line) else { return Ok(None) };
        if value.get("longhaul_bench").is_some() {
            let run = Results::from_json(&value).map_err(|why| format!("{name}: {why}"))?;
            records.push(Record::Run(run));
        } else if let Some(pair) = Pair::from_json(&value) {
            records.push(Record::Path(pair));
        } else {
            return Ok(None);
        }
    }
    Ok((!records.is_empty()).then_some(records))
}

/// The page of `longhaul report` for files of `bench`: the matrix where all are about paths of a list, else the runs
/// side by side. `None` where a file is not of `bench`.
pub(crate) fn report(files: &[OsString]) -> Result<Option<String>, String> {
    let mut records = Vec::new();
    for file in files {
        match read(Path::new(file)) {
            Ok(Some(more)) => records.extend(more),
            Ok(None) if records.is_empty() => return Ok(None),
            Ok(None) => {
                return Err(format!("{}: not the results of longhaul bench", Path::new(file).display()));
            }
            Err(why) => return Err(why),
        }
    }
    let is_matrix = records.iter().all(|record| matches!(record, Record::Path(_)));
    if is_matrix {
        let pair = |record| if let Record::Path(pair) = record { Some(pair) } else { None };
        return Ok(Some(matrix_page(&records.into_iter().filter_map(pair).collect::<Vec<_>>())));
    }
    Ok(Some(page(&records.into_iter().filter_map(Record::into_run).collect::<Vec<_>>())))
}

/// `longhaul compare OLD NEW`; returns the exit status.
pub(crate) fn run_compare(parsed: &Parsed, operands: &[OsString]) -> u8 {
    let [old, new] = operands else {
        return LONGHAUL.usage_error("compare: give two files").print();
    };
    let fail_below = match parsed.long_text("fail-below").map(|text| text.parse::<f64>()) {
        None => 0.0,
        Some(Ok(part)) if (0.0..=10.0).contains(&part) => part,
        Some(_) => return LONGHAUL.usage_error("compare: --fail-below takes a number such as 0.9").print(),
    };
    let one = |file: &OsString| -> Result<Results, String> {
        let name = Path::new(file).display().to_string();
        let records =
            read(Path::new(file))?.ok_or_else(|| format!("{name}: not the results of longhaul bench"))?;
        let mut runs: Vec<Results> = records.into_iter().filter_map(Record::into_run).collect();
        if runs.len() == 1 {
            runs.pop().ok_or(name)
        } else {
            Err(format!("{name}: {} runs, not one", runs.len()))
        }
    };
    let compared = one(old).and_then(|old| Ok(compare(&old, &one(new)?, fail_below)));
    match compared {
        Ok(compared) if compared.compared == 0 => {
            say("compare: the runs have no figure in common");
            2
        }
        Ok(compared) => {
            print!("{}", compared.text);
            println!("{} figures compared, {} worse than allowed", compared.compared, compared.worse);
            u8::from(compared.worse > 0)
        }
        Err(why) => {
            say(&why);
            2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_measurements_go_to_the_host_that_measures() {
        let words = [
            "bench",
            "--hosts",
            "list",
            "--html",
            "page",
            "-o",
            "Port=5",
            "--tcp-port",
            "5201",
            "--peer",
            "stock=/usr/bin/ssh",
            "--peer",
            "new=/opt/new ssh",
            "--remote-dir",
            "it's",
            "--shard",
            "1/2",
        ];
        let parsed = LONGHAUL.parse(words.map(OsString::from)).expect("parses");
        let command = command_there(&parsed, "-x");
        let (flags, host) = command.rsplit_once(" -- ").expect("two parts");
        assert_eq!(host, quoted("-x"));
        for wanted in
            ["--tcp-port", "5201", "stock=/usr/bin/ssh", &quoted("new=/opt/new ssh"), &quoted("it's")]
        {
            assert!(flags.contains(wanted), "{wanted}: {flags}");
        }
        for other in ["--hosts", "--html", "--shard", "Port=5"] {
            assert!(!flags.contains(other), "{other}: {flags}");
        }
        // A program of that host need not be on this one.
        assert!(peers(&parsed).is_ok() && check_peers(&peers(&parsed).expect("peers")).is_err());
    }
}
