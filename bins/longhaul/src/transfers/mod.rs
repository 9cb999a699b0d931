//! `longhaul transfers`: the unfinished copies of this user, by their journals; resumes them, or removes what
//! they have left.

mod clean;
mod origin;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use lh_cli::flags::{LONGHAUL, Parsed};
use lh_cli::progress::size;
use lh_config::units::parse_time;
use lh_sys::errno_text;
use lh_transfer::display_name;
use lh_transfer::journal::{self, Saved};
use serde_json::{Map, Value};

use crate::fault::say;
use crate::output::print_line;
use crate::units::in_words;
use origin::Origin;

/// Exit status where something could not be done.
const FAILURE: u8 = 1;

/// Does what the command line says; returns the exit status.
pub(crate) fn run(parsed: &Parsed, operands: &[OsString]) -> u8 {
    let (older, json) = (parsed.long_text("older-than"), parsed.has_long("json"));
    let word = operands.first().map(|word| word.to_string_lossy());
    let takes = |flag: &str, given: bool, taken: bool| {
        (given && !taken).then(|| format!("transfers {}: has no flag {flag}", word.as_deref().unwrap_or("")))
    };
    let (is_list, is_clean) = (operands.is_empty(), word.as_deref() == Some("clean"));
    let wrong = takes("--older-than", older.is_some(), is_clean);
    if let Some(text) = wrong.or_else(|| takes("--json", json, is_list)) {
        return LONGHAUL.usage_error(&text).print();
    }
    let Some(directory) = directory() else {
        say("transfers: no home directory");
        return FAILURE;
    };
    let all = journal::list(&directory);
    match (word.as_deref(), operands.get(1..).unwrap_or_default()) {
        (None, _) => list(&all, json),
        (Some("resume"), [id]) => one(&all, id).map_or(FAILURE, resume),
        (Some("resume"), _) => LONGHAUL.usage_error("transfers resume: name one ID").print(),
        (Some("clean"), ids) => clean_all(&all, ids, older.as_deref()),
        (Some(other), _) => {
            let other = other.escape_default();
            LONGHAUL.usage_error(&format!("transfers: unknown command {other}")).print()
        }
    }
}

/// Returns the directory of this user's journals of `lhscp`.
fn directory() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).or_else(std::env::home_dir)?;
    Some(journal::directory(std::env::var_os("XDG_STATE_HOME").map(PathBuf::from), &home))
}

/// The transfer of this ID, or of an ID that begins so.
fn one<'a>(all: &'a [Saved], id: &OsString) -> Option<&'a Saved> {
    let id = id.to_string_lossy();
    let exact = all.iter().find(|saved| saved.id == id);
    let mut begin = all.iter().filter(|saved| !id.is_empty() && saved.id.starts_with(&*id));
    match (exact, begin.next(), begin.next()) {
        (Some(saved), ..) | (None, Some(saved), None) => Some(saved),
        (None, None, _) => {
            say(&format!("transfers: no transfer {}", id.escape_default()));
            None
        }
        (None, Some(_), Some(_)) => {
            say(&format!("transfers: {} is the beginning of several IDs", id.escape_default()));
            None
        }
    }
}

fn age_of(saved: &Saved) -> Duration {
    SystemTime::now().duration_since(saved.modified).unwrap_or_default()
}

fn list(all: &[Saved], json: bool) -> u8 {
    for saved in all {
        let text = if json { event(saved) } else { lines(saved) };
        if let Err(fault) = print_line(&text) {
            return fault.report(FAILURE);
        }
    }
    if all.is_empty() && !json {
        return print_line("no unfinished transfers").map_or_else(|fault| fault.report(FAILURE), |()| 0);
    }
    0
}

const fn state(saved: &Saved) -> &'static str {
    if saved.running { "running" } else { "unfinished" }
}

fn lines(saved: &Saved) -> String {
    let bytes: u64 = saved.parts.iter().map(|part| part.bytes).sum();
    let parts = match saved.parts.len() {
        0 => String::new(),
        count => format!(", {count} unfinished with {}", size(bytes).trim()),
    };
    let complete = if saved.done == 1 { "1 file is".into() } else { format!("{} files are", saved.done) };
    let copy = match Origin::of(saved) {
        Some(origin) => format!("{} -> {}", origin.from(), origin.to()),
        None => match saved.parts.first() {
            Some(part) => format!("-> {} (the journal has no command)", display_name(&part.target)),
            None => "the journal has no command".to_owned(),
        },
    };
    let age = in_words(age_of(saved));
    format!("{}  {}, {age} ago: {complete} complete{parts}\n    {copy}", saved.id, state(saved))
}

fn event(saved: &Saved) -> String {
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes));
    let words = |words: &[Vec<u8>]| Value::from(words.iter().map(|word| text(word)).collect::<Vec<_>>());
    let parts: Vec<Value> = saved
        .parts
        .iter()
        .map(|part| {
            let mut object = Map::new();
            object.insert("target".into(), text(&part.target));
            object.insert("name".into(), text(&part.name));
            object.insert("bytes".into(), part.bytes.into());
            Value::Object(object)
        })
        .collect();
    let origin = Origin::of(saved);
    let mut object = Map::new();
    object.insert("id".into(), saved.id.as_str().into());
    object.insert("state".into(), state(saved).into());
    object.insert("age".into(), age_of(saved).as_secs().into());
    object.insert("from".into(), origin.as_ref().map(Origin::from).into());
    object.insert("to".into(), origin.as_ref().map(Origin::to).into());
    object.insert("directory".into(), saved.command.first().map(|word| text(word)).into());
    object.insert("command".into(), words(saved.command.get(1..).unwrap_or_default()));
    object.insert("files".into(), saved.done.into());
    object.insert("unfinished".into(), parts.into());
    Value::Object(object).to_string()
}

/// Becomes the command that began the copy.
fn resume(saved: &Saved) -> u8 {
    if saved.running {
        say(&format!("{}: a process works on it", saved.id));
        return FAILURE;
    }
    let Some(origin) = Origin::of(saved) else {
        say(&format!("{}: the journal has no command; run the one that began the copy", saved.id));
        return FAILURE;
    };
    let error = Command::new(&origin.program).args(&origin.arguments).current_dir(&origin.directory).exec();
    say(&format!("{} in {}: {}", origin.program.display(), origin.directory.display(), errno_text(&error)));
    FAILURE
}

fn clean_all(all: &[Saved], ids: &[OsString], older: Option<&str>) -> u8 {
    let chosen: Vec<&Saved> = match (ids, older) {
        ([id], None) => match one(all, id) {
            Some(saved) => vec![saved],
            None => return FAILURE,
        },
        ([], Some(time)) => {
            let Some(least) = parse_time(time).map(Duration::from_secs) else {
                return LONGHAUL
                    .usage_error(&format!("bad time \"{time}\": seconds, or as 12h or 30d"))
                    .print();
            };
            all.iter().filter(|saved| !saved.running && age_of(saved) >= least).collect()
        }
        _ => return LONGHAUL.usage_error("transfers clean: name one ID, or --older-than").print(),
    };
    let mut status = 0;
    for saved in chosen {
        if saved.running {
            say(&format!("{}: a process works on it", saved.id));
            status = FAILURE;
        } else if clean::clean(saved) {
            let text = format!("{}: removed, with {} unfinished files", saved.id, saved.parts.len());
            status = print_line(&text).map_or_else(|fault| fault.report(FAILURE), |()| status);
        } else {
            status = FAILURE;
        }
    }
    status
}
