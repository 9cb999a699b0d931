//! The pages of the site and their commands.

use std::fs;
use std::path::Path;

use lh_config::client_table::CLIENT_KEYWORDS;
use lh_config::server_table::SERVER_KEYWORDS;
use lh_interop::shown::{Code, Command, code};

#[path = "../../../xtask/src/site/groups.rs"]
mod groups;

/// Pages that are no instructions: their commands made the figures of one day, with the hosts and files of
/// that day.
const RECORDS: &str = "docs/lab/";

/// Blocks that hold no commands: page, and the beginning of the first line. These are outputs, lines of
/// files, messages and drawings.
pub(crate) const NO_COMMANDS: &[(&str, &str)] = &[
    ("docs/architecture.md", "bins/ "),
    ("docs/containers.md", "root:x:0:0"),
    ("docs/json.md", "{\"longhaul_manifest\""),
    ("docs/keys.md", "restrict,command="),
    ("docs/keys.md", "@cert-authority"),
    ("docs/long-paths.md", "lhscp: held up by loss"),
    ("docs/metrics.md", "byte "),
    ("docs/metrics.md", "string "),
    ("docs/oidc.md", "https://accounts.google.com CLIENT-ID"),
    ("docs/pam.md", "UsePAM: libpam.so.0"),
    ("docs/protocol.md", ""),
    ("docs/server.md", "# /etc/systemd/system/lhsshd.socket"),
    ("docs/server.md", "[Install]"),
    ("docs/server.md", UPLOAD_HOOK),
    ("docs/server.md", "2026-"),
];

/// Begins the hook of `docs/server.md`.
pub(crate) const UPLOAD_HOOK: &str = "#!/bin/sh";

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

pub(crate) fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the names of the site's pages, without the records.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let pages = groups::GROUPS.iter().flat_map(|(_, pages)| pages.iter().map(|(page, _)| *page));
    pages.filter(|page| !page.starts_with(RECORDS))
}

/// Returns whether a line is one of a configuration file of SSH.
fn is_setting(line: &str) -> bool {
    let Some(word) = line.split_whitespace().next() else { return true };
    let is_known = |name: &str| name.eq_ignore_ascii_case(word);
    word.starts_with('#')
        || ["Match", "Include"].contains(&word)
        || CLIENT_KEYWORDS.iter().chain(SERVER_KEYWORDS).any(|keyword| is_known(keyword.name))
}

/// Returns the row of [`NO_COMMANDS`] for this block.
pub(crate) fn without_commands(page: &str, block: &Code) -> Option<&'static (&'static str, &'static str)> {
    let first = *block.lines.first()?;
    NO_COMMANDS.iter().find(|(name, start)| *name == page && first.starts_with(start))
}

/// Returns the blocks of a page that hold nothing but settings of SSH, with the numbers of their first lines.
pub(crate) fn settings(page: &str) -> Vec<(usize, String)> {
    let text = read(page);
    let blocks = code(&text);
    let found = blocks.iter().filter(|block| block.info.is_none() && is_file_of_settings(&block.lines));
    found.map(|block| (block.line, block.lines.join("\n") + "\n")).collect()
}

fn is_file_of_settings(lines: &[&str]) -> bool {
    lines.iter().all(|line| is_setting(line)) && lines.iter().any(|line| !line.starts_with('#'))
}

/// Returns the commands of a page, but not those of blocks that are marked `sh runnable`.
pub(crate) fn commands(page: &str) -> Vec<Command> {
    let text = read(page);
    let blocks = code(&text);
    let of_commands = blocks.iter().filter(|block| match block.info {
        Some(info) => info == "sh",
        None => without_commands(page, block).is_none() && !is_file_of_settings(&block.lines),
    });
    let found = of_commands.flat_map(|block| block.commands());
    found.filter(|command| !is_setting(&command.text)).collect()
}

/// Returns the commands of a page that begin so.
#[track_caller]
pub(crate) fn commands_that_begin(page: &str, start: &str) -> Vec<Command> {
    let found: Vec<_> =
        commands(page).into_iter().filter(|command| command.text.starts_with(start)).collect();
    assert!(!found.is_empty(), "{page} has no command that begins with {start}");
    found
}
