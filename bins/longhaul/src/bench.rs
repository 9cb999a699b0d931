//! `longhaul bench HOST`, and `longhaul compare OLD NEW`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lh_cli::flags::Parsed;
use lh_client::Destination;
use lh_instrument::bench::{Pair, Plan, Results, matrix, matrix_page, measure, page, read_pairs, text};
use lh_instrument::{NoResults, quoted};
use lh_sys::signals;
use lh_transfer::Shard;
use rustix::process::Signal;
use serde_json::Value;

use crate::doctor::{progress, target};
use crate::fault::{Content, Fault};
use crate::output::{print, print_line};

/// Exit statuses.
const FAILURE: u8 = 1;
const CANNOT: u8 = 255;
const INTERRUPTED: u8 = 130;

/// Upper limit of a list of paths, MiB.
const LONGEST_LIST: u64 = 16;

/// Time of a run.
const TIME: Duration = Duration::from_secs(120);
const QUICK: Duration = Duration::from_secs(20);
/// Times that `--time` takes, seconds: a day is more than a path stays the same.
const TIMES: std::ops::RangeInclusive<u64> = 30..=86_400;

/// Flags that clients of the connection get too.
const OF_CLIENTS: &[char] = &['4', '6', 'C', 'F', 'J', 'i', 'o'];

/// Flags that a host gets that measures in place of this one.
const OF_MEASUREMENTS: &[&str] = &["local-dir", "peer", "remote-dir", "tcp-port"];

/// `longhaul bench`; returns the exit status.
pub(crate) fn run(parsed: &Parsed, operands: &[OsString]) -> u8 {
    let done = match (parsed.long_value("hosts"), operands) {
        (Some(_), _) if parsed.has_long("time") => {
            Err(Fault::Usage("bench: --time goes with one host, not with --hosts".to_owned()))
        }
        (Some(list), []) => run_hosts(parsed, Path::new(list)),
        (None, [_]) if parsed.has_long("shard") => {
            Err(Fault::Usage("bench: --shard goes with --hosts".to_owned()))
        }
        (None, [host]) => {
            let host = host.to_string_lossy();
            run_one(parsed, &host).or_else(|fault| {
                if parsed.has_long("json") && !matches!(fault, Fault::Output(_)) {
                    print_line(&Results::failure(&host, &fault.to_string()).to_string())?;
                }
                Err(fault)
            })
        }
        _ => Err(Fault::Usage("bench: give one host, or --hosts".to_owned())),
    };
    done.unwrap_or_else(|fault| fault.report(CANNOT))
}

/// Returns what becomes true with the first signal, and stays so. A second signal ends the program at once,
/// but for SIGHUP: a terminal that is closed sends it twice, itself and by the shell. The signals are not
/// blocked, because clients that are started would inherit that, and never end when they are told to.
fn stopper() -> Result<impl Fn() -> bool, Fault> {
    let signals = [Signal::INT, Signal::TERM, Signal::HUP];
    let restore = |_| signals::restore_defaults(&[Signal::INT, Signal::TERM]);
    signals::on_first(&signals, restore).map_err(Fault::system("signals"))?;
    Ok(signals::has_come)
}

fn run_one(parsed: &Parsed, host: &str) -> Result<u8, Fault> {
    let plan = plan(parsed, host)?;
    check_peers(&plan.peers)?;
    let stop = stopper()?;
    let target = target(parsed, host)?;
    let page_file = open_page(parsed)?;
    let mut tell = progress(parsed.has('q'));
    let measured = measure(&target, &plan, &stop, &mut tell);
    tell("");
    let results = measured?;
    let out = if parsed.has_long("json") { format!("{}\n", results.json()) } else { text(&results) };
    let printed = print(&out);
    let written = page_file.map_or(Ok(()), |file| file.write(&page(std::slice::from_ref(&results))));
    // The results are lost only if neither file can be written.
    let unwritten = [printed, written].into_iter().filter_map(Result::err);
    let unwritten = unwritten.map(|fault| fault.report(FAILURE)).max();
    let leftover = results.leftover().map(|why| Fault::Refused(why.to_owned()).report(FAILURE));
    Ok(status(unwritten, stop(), leftover))
}

/// Exit status of a run. Each fault has a status.
fn status(unwritten: Option<u8>, is_interrupted: bool, leftover: Option<u8>) -> u8 {
    unwritten.or_else(|| is_interrupted.then_some(INTERRUPTED)).or(leftover).unwrap_or(0)
}

/// The file of `--html`. It is opened before minutes of measuring.
struct PageFile<'a> {
    path: &'a Path,
    file: File,
}

fn open_page(parsed: &Parsed) -> Result<Option<PageFile<'_>>, Fault> {
    let Some(path) = parsed.long_value("html").map(Path::new) else { return Ok(None) };
    // The old page stays until the new one is complete.
    let file =
        File::options().write(true).create(true).truncate(false).open(path).map_err(Fault::file(path))?;
    Ok(Some(PageFile { path, file }))
}

impl PageFile<'_> {
    fn write(mut self, page: &str) -> Result<(), Fault> {
        // A device or pipe has no length.
        let is_file = self.file.metadata().is_ok_and(|meta| meta.is_file());
        let emptied = if is_file { self.file.set_len(0) } else { Ok(()) };
        emptied.and_then(|()| self.file.write_all(page.as_bytes())).map_err(Fault::file(self.path))
    }
}

fn plan(parsed: &Parsed, host: &str) -> Result<Plan, Fault> {
    let place = Destination::parse(host).map_err(Fault::destination(host))?;
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
        time: time(parsed)?,
        quick,
        peers,
        client_words,
        destination: place.host,
        local_directory: parsed.long_value("local-dir").map_or_else(|| PathBuf::from("."), PathBuf::from),
        remote_directory: parsed.long_text("remote-dir").unwrap_or_else(|| ".".to_owned()),
    })
}

/// Time of a run to one host.
fn time(parsed: &Parsed) -> Result<Duration, Fault> {
    let quick = parsed.has_long("quick");
    match parsed.long_text("time").map(|text| text.parse::<u64>()) {
        None => Ok(if quick { QUICK } else { TIME }),
        Some(_) if quick => Err(Fault::Usage("bench: give --quick or --time".to_owned())),
        Some(Ok(seconds)) if TIMES.contains(&seconds) => Ok(Duration::from_secs(seconds)),
        Some(_) => Err(Fault::Usage(format!(
            "bench: --time takes a number of seconds from {} to {}",
            TIMES.start(),
            TIMES.end()
        ))),
    }
}

/// Names and programs of `--peer`.
fn peers(parsed: &Parsed) -> Result<Vec<(String, PathBuf)>, Fault> {
    let given =
        parsed.long.iter().filter(|(flag, _)| *flag == "peer").filter_map(|(_, value)| value.as_ref());
    let of = |peer: &OsString| {
        let peer = peer.to_string_lossy();
        let parts = peer.split_once('=').filter(|(name, path)| !name.is_empty() && !path.is_empty());
        let (name, path) = parts.ok_or_else(|| {
            Fault::Usage(format!("bench: --peer \"{}\": not NAME=PROGRAM", lh_client::sanitise(&peer)))
        })?;
        Ok((name.to_owned(), PathBuf::from(path)))
    };
    given.map(of).collect()
}

/// Fails where a program of `--peer` is not on this machine.
fn check_peers(peers: &[(String, PathBuf)]) -> Result<(), Fault> {
    for (_, path) in peers {
        let file = rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(std::io::Error::from);
        file.map_err(Fault::file(path))?;
        if path.is_dir() {
            return Err(Fault::file(path)(rustix::io::Errno::ISDIR.into()));
        }
    }
    Ok(())
}

fn tcp_port(parsed: &Parsed) -> Result<Option<u16>, Fault> {
    match parsed.long_text("tcp-port").map(|text| text.parse::<u16>()) {
        None => Ok(None),
        Some(Ok(port @ 1..)) => Ok(Some(port)),
        Some(_) => Err(Fault::Usage("bench: --tcp-port takes a number from 1 to 65535".to_owned())),
    }
}

/// The paths of a list, one after the other.
fn run_hosts(parsed: &Parsed, list: &Path) -> Result<u8, Fault> {
    let shard = parsed.long_text("shard").map(|text| Shard::of_flag(&text)).transpose();
    let shard = shard.map_err(|bad| Fault::Usage(format!("bench: {bad}")))?;
    let (_, _) = (peers(parsed)?, tcp_port(parsed)?);
    let all = read_list(list)?;
    let page_file = open_page(parsed)?;
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
        let result = result.map_err(|fault| NoResults::Failed(fault.to_string()));
        let pair = Pair { from, to, result };
        if parsed.has_long("json") {
            // Each as soon as it is there: a job that is cut off keeps what it has.
            print_line(&pair.json().to_string())?;
        }
        pairs.push(pair);
    }
    let printed = if parsed.has_long("json") { Ok(()) } else { print(&matrix(&pairs)) };
    let written = page_file.map_or(Ok(()), |file| file.write(&matrix_page(&pairs)));
    let unwritten = [printed, written].into_iter().filter_map(Result::err);
    let unwritten = unwritten.fold(false, |_, fault| fault.report(FAILURE) != 0);
    let failed = |pair: &Pair| pair.result.as_ref().map_or(true, |results| results.leftover().is_some());
    let failed = unwritten || pairs.iter().any(failed);
    Ok(if stop() {
        INTERRUPTED
    } else if failed {
        FAILURE
    } else {
        0
    })
}

fn from_here(parsed: &Parsed, to: &str, stop: &dyn Fn() -> bool) -> Result<Results, Fault> {
    let plan = Plan { time: QUICK, quick: true, ..plan(parsed, to)? };
    check_peers(&plan.peers)?;
    Ok(measure(&target(parsed, to)?, &plan, stop, &mut |_| {})?)
}

/// The paths of the list.
fn read_list(list: &Path) -> Result<Vec<(String, String)>, Fault> {
    let mut bytes = Vec::new();
    let read = File::open(list).and_then(|file| file.take((LONGEST_LIST << 20) + 1).read_to_end(&mut bytes));
    if read.map_err(Fault::file(list))? as u64 > LONGEST_LIST << 20 {
        return Err(Fault::content(list)(Content::TooLong(LONGEST_LIST)));
    }
    let words = String::from_utf8(bytes).map_err(|_| Fault::content(list)(Content::NotText))?;
    read_pairs(&words).map_err(Fault::content(list))
}

/// The command for the host that measures. Flags about the measurement go there; those about the connection
/// are for the login to that host, which has a configuration of its own.
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

/// Makes the first host measure the path to the second one, with the `longhaul` installed there.
fn from_there(parsed: &Parsed, from: &str, to: &str) -> Result<Results, Fault> {
    let plan = plan(parsed, from)?;
    let lhssh = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("lhssh")));
    let lhssh = lhssh.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("lhssh"));
    let done = Command::new(&lhssh)
        .args(["-o", "BatchMode=yes"])
        .args(&plan.client_words)
        .arg(&plan.destination)
        .arg(command_there(parsed, to))
        .stdin(Stdio::null())
        .output()
        .map_err(Fault::file(&lhssh))?;
    let value: Value = serde_json::from_slice(&done.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&done.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no results");
        Fault::Refused(lh_client::sanitise(last))
    })?;
    Results::from_json(&value).map_err(|fault| Fault::Refused(fault.to_string()))
}

#[cfg(test)]
mod tests {
    use lh_cli::flags::LONGHAUL;

    use super::*;

    #[test]
    fn a_leftover_is_a_failure_unless_the_run_was_interrupted() {
        assert_eq!(status(None, false, None), 0);
        assert_eq!(status(None, false, Some(FAILURE)), FAILURE);
        assert_eq!(status(None, true, Some(FAILURE)), INTERRUPTED);
        assert_eq!(status(Some(FAILURE), true, None), FAILURE, "the results are lost");
    }

    #[test]
    fn time_of_a_run_is_that_of_its_flags() {
        let of = |words: &[&str]| {
            let parsed = LONGHAUL.parse(["bench"].iter().chain(words).map(OsString::from)).expect("parses");
            time(&parsed).map_err(|fault| fault.to_string())
        };
        assert_eq!((of(&[]), of(&["--quick"])), (Ok(TIME), Ok(QUICK)));
        assert_eq!(of(&["--time", "600"]), Ok(Duration::from_secs(600)));
        for wrong in [&["--time", "29"][..], &["--time", "86401"], &["--time", "x"]] {
            let why = of(wrong).expect_err("refused");
            assert!(why.contains("from 30 to 86400"), "{wrong:?}: {why}");
        }
        assert!(of(&["--quick", "--time", "600"]).is_err());
    }

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
