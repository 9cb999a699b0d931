//! Source, target and access of a copy, read from the command in its journal.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use lh_cli::flags::{Parsed, SCP};
use lh_ssh_transfer::place::Place;
use lh_transfer::display_name;
use lh_transfer::journal::Saved;

/// Sources that are shown by name.
const SHOWN: usize = 3;

/// The command of a copy, understood.
pub(super) struct Origin {
    /// Working directory of the command.
    pub(super) directory: PathBuf,
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) parsed: Parsed,
    sources: Vec<OsString>,
    target_word: OsString,
    pub(super) target: Place,
}

impl Origin {
    /// `None` where the journal does not say, or names another program.
    pub(super) fn of(saved: &Saved) -> Option<Self> {
        let mut words = saved.command.iter().map(|word| OsString::from_vec(word.clone()));
        let (directory, program) = (PathBuf::from(words.next()?), words.next()?);
        let arguments: Vec<OsString> = words.collect();
        let parsed = SCP.parse(arguments.iter().cloned()).ok()?;
        let mut sources = parsed.operands.clone();
        let target_word = sources.pop()?;
        let target = Place::parse(&target_word).ok()?;
        Some(Self { directory, program, arguments, parsed, sources, target_word, target })
    }

    /// The sources, for people.
    pub(super) fn from(&self) -> String {
        let mut names: Vec<String> =
            self.sources.iter().take(SHOWN).map(|word| display_name(word.as_encoded_bytes())).collect();
        if let Some(more @ 1..) = self.sources.len().checked_sub(SHOWN) {
            names.push(format!("{more} more"));
        }
        names.join(", ")
    }

    /// The target, for people.
    pub(super) fn to(&self) -> String {
        display_name(self.target_word.as_encoded_bytes())
    }
}
