//! Copies that survive: where their journal is, trying again when a connection breaks, stopping in good
//! order.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use lh_transfer::{Direction, Options, Plan, Summary, journal};

use crate::command_line::{Arguments, HostAccess};
use crate::outcome::Outcome;
use crate::place::{Host, bytes};
use crate::program::spelled;
use crate::show::say;

/// Exit status of a copy that was stopped by ^C.
pub(crate) const INTERRUPTED: u8 = Outcome::Interrupted.status();

/// The options of one copy: those of the command line, and its journal.
pub(crate) fn options(arguments: &Arguments, plan: &Plan, hosts: &[&Host]) -> Options {
    let mut options = arguments.options.clone();
    if options.placing.atomic && arguments.resume {
        options.placing.journal = journal_path(arguments, plan, hosts);
        options.placing.journal_command = command();
    }
    // The copy itself paces downloads, and data that another program sends; the kernel paces our uploads.
    if plan.direction == Direction::Download || arguments.via != HostAccess::Inside {
        let pace = arguments.pace.map(|bytes| bytes.saturating_mul(8));
        let limits = &mut options.limits;
        limits.bits_per_second = limits.bits_per_second.into_iter().chain(pace).min();
    }
    options
}

/// The directory, the program and the arguments of this process: what starts the copy again.
fn command() -> Vec<Vec<u8>> {
    let (Ok(directory), Ok(program)) = (std::env::current_dir(), std::env::current_exe()) else {
        return Vec::new();
    };
    // One file may be all programs (`longhaul-multi`): the link `lhscp` beside it selects this one.
    let named = Some(program.with_file_name("lhscp")).filter(|path| path.is_file());
    let program = named.unwrap_or(program);
    let mut words = vec![bytes(directory.as_os_str()), bytes(program.as_os_str())];
    words.extend(std::env::args_os().skip(1).map(|word| bytes(&word)));
    words
}

/// Returns the path of the journal. Runs of one command line on equal hosts share a journal, from every
/// directory where its paths have one meaning.
fn journal_path(arguments: &Arguments, plan: &Plan, hosts: &[&Host]) -> Option<PathBuf> {
    let absolute = |path: &[u8]| {
        let path = std::path::absolute(std::ffi::OsStr::from_bytes(path)).ok();
        path.map_or_else(Vec::new, |path| bytes(path.as_os_str()))
    };
    let local = |path: &Vec<u8>, is_local: bool| if is_local { absolute(path) } else { path.clone() };
    let direction = plan.direction;
    let mut words = vec![match direction {
        Direction::Upload => b"upload".to_vec(),
        Direction::Download => b"download".to_vec(),
        Direction::Relay => b"relay".to_vec(),
    }];
    for host in hosts {
        words.push(bytes(&spelled(host, b"")));
        words.push(format!("{:?}", host.port.or(arguments.login.port)).into_bytes());
    }
    words.extend(plan.sources.iter().map(|source| local(source, direction == Direction::Upload)));
    words.push(local(&plan.target, direction == Direction::Download));
    let shard = plan_shard(arguments);
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let home = std::env::var_os("HOME").map(PathBuf::from).or_else(std::env::home_dir)?;
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    Some(journal::file_for(&journal::directory(state, &home), &words, shard))
}

/// Each shard has a journal of its own, beside the others': they are one copy.
fn plan_shard(arguments: &Arguments) -> Option<(u32, u32)> {
    arguments.options.select.shard.map(|shard| (shard.number + 1, shard.of))
}

/// Says what is left of a copy that was stopped.
pub(crate) fn tell_interrupted(can_go_on: bool, summary: Option<&Summary>) {
    let files = match summary.map(|summary| summary.files) {
        Some(1) => ": 1 file is complete".to_owned(),
        Some(files) => format!(": {files} files are complete"),
        None => String::new(),
    };
    let kept = if can_go_on {
        "the same command again goes on from here"
    } else {
        "what was unfinished has to be copied again"
    };
    say(&format!("interrupted{files}; {kept}"));
}

/// Says what a copy that did not come to its end has left, by its journal. Call when the job is gone.
pub(crate) fn tell_left(journal: Option<&Path>) {
    if let Some(text) = left(journal) {
        say(&text);
    }
}

/// Returns what [`tell_left`] says.
pub(crate) fn left(journal: Option<&Path>) -> Option<String> {
    let saved = journal.and_then(journal::read)?;
    let name = |part: &journal::SavedPart| lh_transfer::display_name(&part.name);
    let parts = match &saved.parts[..] {
        [] if saved.done == 0 => return None,
        [] => String::new(),
        [part] => format!("the unfinished file {} and ", name(part)),
        [first, ..] => format!("{} unfinished files ({}, ...) and ", saved.parts.len(), name(first)),
    };
    Some(format!(
        "left behind: {parts}the journal {}; the same command resumes, longhaul transfers lists and removes it",
        saved.id
    ))
}
