//! Flags about the copy itself: which items are copied, and how.

use std::path::PathBuf;
use std::time::Duration;

use lh_cli::flags::{Parsed, SCP, Stop};
use lh_config::network::BitRate;
use lh_config::units::parse_time;
use lh_transfer::{
    BadShard, Keep, Manifest, Options, Placing, Rule, Selection, Shard, SumAlgorithm, TreeSync, Verify,
};

use super::mode::{Mode, mode};
use crate::outputs::{OutputSettings, Outputs};
use crate::place::{Host, Place};
use crate::retry_limit::RetryLimit;

pub(super) fn copy_options(parsed: &Parsed) -> Options {
    Options {
        recursive: parsed.has('r') || parsed.has_long("sync"),
        preserve: parsed.has('p') || parsed.has_long("preserve") || parsed.has_long("sync"),
        keep: keep(parsed),
        placing: Placing {
            atomic: !parsed.has_long("in-place"),
            adopt_partial: parsed.has('Z'),
            sync: parsed.has_long("fsync"),
            ..Placing::default()
        },
        dry_run: parsed.has_long("dry-run"),
        verify: match (parsed.has_long("verify"), parsed.has_long("no-verify")) {
            (true, _) => Verify::Always,
            (_, true) => Verify::Off,
            _ => Verify::WhenCheap,
        },
        ..Options::default()
    }
}

/// Returns the attributes that are kept besides data, times and modes.
fn keep(parsed: &Parsed) -> Keep {
    let wants = |flag| parsed.has_long("preserve") || parsed.has_long(flag);
    Keep {
        links: wants("links"),
        hard_links: parsed.has_long("preserve") || parsed.has('H'),
        xattrs: wants("xattrs"),
        acls: wants("acls"),
        owner: wants("owner"),
        group: wants("group"),
        sparse: parsed.has_long("sparse"),
    }
}

/// Only the engine keeps more than times and modes: what the old protocol and another program would forget is
/// refused.
pub(super) fn check_keep(mode: Mode, direct: bool, options: &Options) -> Result<(), Stop> {
    match (mode, direct) {
        _ if options.keep == Keep::default() => Ok(()),
        (Mode::Legacy, _) => {
            Err(SCP.error("the old protocol (-O) keeps times and modes (-p) and nothing else"))
        }
        (_, true) => {
            Err(SCP.error("with -R the first host's scp keeps times and modes (-p) and nothing else"))
        }
        _ => Ok(()),
    }
}

/// `--sync`, and the flags that say more about it.
pub(super) fn tree_sync(parsed: &Parsed) -> Result<Option<TreeSync>, Stop> {
    let delete = parsed.has_long("delete");
    for flag in ["delete", "max-delete", "checksum", "update", "backup-dir"] {
        if parsed.has_long(flag) && !parsed.has_long("sync") {
            return Err(SCP.error(&format!("--{flag} is for copies with --sync")));
        }
    }
    if delete && parsed.has_long("shard") {
        return Err(SCP.error("--delete needs to see all of a tree, and a --shard is a part"));
    }
    let max_delete = match parsed.long_text("max-delete") {
        None => None,
        Some(text) => {
            let number = text.parse().ok();
            Some(number.ok_or_else(|| SCP.usage_error(&format!("bad number of deletions \"{text}\"")))?)
        }
    };
    if max_delete.is_some() && !delete {
        return Err(SCP.error("--max-delete is for copies with --delete"));
    }
    let backup_dir = parsed.long.iter().rev().find(|(flag, _)| *flag == "backup-dir");
    let backup_dir =
        backup_dir.map(|(_, path)| path.as_deref().unwrap_or_default().as_encoded_bytes().to_vec());
    if backup_dir.as_ref().is_some_and(Vec::is_empty) {
        return Err(SCP.usage_error("--backup-dir needs a directory"));
    }
    if backup_dir.is_some() && parsed.has_long("in-place") {
        return Err(SCP.error("--backup-dir moves files away by renaming, and --in-place writes into them"));
    }
    Ok(parsed.has_long("sync").then_some(TreeSync {
        delete,
        max_delete,
        checksum: parsed.has_long("checksum"),
        keep_newer: parsed.has_long("update"),
        backup_dir,
    }))
}

/// Refuses `--sync` where it cannot compare: it needs SFTP, and all sources of a target at once.
pub(super) fn check_sync(mode: Mode, direct: bool, sources: &[Place], target: &Place) -> Result<(), Stop> {
    let hosts: Vec<Option<&Host>> = sources.iter().map(Place::host).collect();
    let why = match (mode, &hosts[..]) {
        (Mode::Legacy, _) => "--sync needs SFTP, and -O is the protocol before it",
        _ if direct => "--sync copies through this host: without -R",
        (_, [first, rest @ ..]) if rest.iter().any(|host| host != first) => {
            "--sync takes the sources of one host"
        }
        (_, [None, ..]) if target.host().is_none() => "--sync needs a remote source or target",
        _ => return Ok(()),
    };
    Err(SCP.error(why))
}

/// Returns the rules that select items of a tree.
pub(super) fn selection(parsed: &Parsed) -> Result<Selection, Stop> {
    let rules = parsed.long.iter().filter(|(flag, _)| matches!(*flag, "include" | "exclude"));
    let rules = rules.map(|(flag, pattern)| {
        Rule::new(*flag == "include", pattern.as_deref().unwrap_or_default().as_encoded_bytes())
    });
    let manifest = match parsed.long_text("manifest") {
        None => None,
        Some(path) => match std::fs::read(&path) {
            Ok(text) => Some(Manifest::parse(&text)),
            Err(error) => return Err(SCP.error(&format!("--manifest {path}: {error}"))),
        },
    };
    let shard =
        parsed.long_text("shard").map(|text| Shard::of_flag(&text)).transpose().map_err(|bad| match bad {
            BadShard::Malformed(_) => SCP.usage_error(&bad.to_string()),
            _ => SCP.error(&bad.to_string()),
        })?;
    Ok(Selection { rules: rules.collect(), manifest, shard })
}

/// The files that are to be left for programs.
pub(super) fn outputs(parsed: &Parsed) -> Result<Outputs, Stop> {
    let path = |flag| parsed.long_value(flag).map(PathBuf::from);
    let wanted = OutputSettings {
        manifest: path("manifest-out"),
        failed: path("failed-out"),
        algorithm: match parsed.long_text("manifest-sum") {
            None => SumAlgorithm::default(),
            Some(_) if path("manifest-out").is_none() => {
                return Err(SCP.usage_error("--manifest-sum is for --manifest-out"));
            }
            Some(name) => SumAlgorithm::parse(&name)
                .ok_or_else(|| SCP.usage_error(&format!("bad sum \"{name}\": sha256 or xxh3")))?,
        },
    };
    if wanted.manifest.is_some() && wanted.manifest == wanted.failed {
        return Err(SCP.usage_error("--manifest-out and --failed-out name the same file"));
    }
    let outputs = Outputs::new(wanted);
    match outputs.flags() {
        Some(flag) if mode(parsed)? == Mode::Legacy => {
            Err(SCP.error(&format!("{flag}: not with the old protocol (-O)")))
        }
        Some(flag) if parsed.has_long("dry-run") => {
            Err(SCP.error(&format!("{flag}: not with --dry-run, which copies nothing")))
        }
        _ => Ok(outputs),
    }
}

/// `--pace`, in bytes per second.
pub(super) fn pace(parsed: &Parsed) -> Result<Option<u64>, Stop> {
    let Some(text) = parsed.long_text("pace") else { return Ok(None) };
    let rate = BitRate(BitRate::read(&text)).bytes_per_second();
    rate.map(Some).ok_or_else(|| SCP.usage_error(&format!("bad rate \"{text}\": bits per second, as 800M")))
}

/// Returns how long the copy continues after a broken connection.
pub(super) fn retry_limit(parsed: &Parsed, mode: Mode) -> Result<RetryLimit, Stop> {
    let retries = parsed.long_text("retries");
    let Some(time) = parsed.long_text("retry-for") else {
        let Some(retries) = retries else { return Ok(RetryLimit::Usual) };
        let bad = |_| SCP.usage_error(&format!("bad number of retries \"{retries}\""));
        return retries.parse().map(RetryLimit::Times).map_err(bad);
    };
    let seconds = parse_time(&time).filter(|&seconds| seconds > 0);
    let seconds = seconds
        .ok_or_else(|| SCP.usage_error(&format!("bad time \"{time}\": seconds, or as 12h or 1h30m")))?;
    let given = |flag: char| parsed.has(flag).then(|| format!("-{flag}"));
    let given_long = |flag: &str| parsed.has_long(flag).then(|| format!("--{flag}"));
    let other = retries.map(|_| "--retries".to_owned());
    let other = other.or_else(|| (mode == Mode::Legacy).then(|| "-O".to_owned())).or_else(|| given('S'));
    let other = other.or_else(|| given('D')).or_else(|| given_long("no-resume"));
    match other.or_else(|| given_long("in-place")) {
        Some(flag) => Err(SCP.error(&format!("--retry-for: not with {flag}"))),
        None => Ok(RetryLimit::For(Duration::from_secs(seconds))),
    }
}

/// A value of `-X` that is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TuneError {
    #[error("Invalid -X option")]
    Unknown,
    #[error("Invalid {what} \"{value}\": must be 1 to {most}")]
    Range { what: &'static str, value: String, most: u64 },
}

/// `-X nrequests=N`, `-X buffer=BYTES`, `-X answer-timeout=SECONDS` and `-X first-answer=SECONDS`.
pub(super) fn tune(options: &mut Options, text: &str) -> Result<(), TuneError> {
    let (name, value) = text.split_once('=').ok_or(TuneError::Unknown)?;
    let number = |what, most| {
        let number = scaled(value).filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| TuneError::Range { what, value: value.to_owned(), most })
    };
    match name {
        "nrequests" => options.limits.requests = Some(number("number of requests", 8 * 1024)? as usize),
        "answer-timeout" => options.timeouts.answer = Duration::from_secs(number("answer-timeout", 86_400)?),
        "first-answer" => {
            options.timeouts.first_answer = Some(Duration::from_secs(number("first-answer", 86_400)?));
        }
        "buffer" => options.limits.request_bytes = Some(number("buffer size", 256 * 1024)? as u32),
        _ => return Err(TuneError::Unknown),
    }
    Ok(())
}

/// A number, perhaps with a unit of 1024s behind it.
fn scaled(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}
