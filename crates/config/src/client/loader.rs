//! State of loading a configuration, and the messages about it.

use std::fmt::Display;

use super::Request;
use crate::client_table::ClientSettings;
use crate::enums::LogLevel;
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::names::{BAD_HOST, host_is_safe};
use crate::note::Note;
use crate::table::Origin;

pub(super) struct Loader<'a> {
    pub(super) request: &'a Request,
    pub(super) environment: &'a dyn Environment,
    pub(super) settings: ClientSettings,
    pub(super) notes: Vec<Note>,
    /// Error messages so far.
    pub(super) lines: Vec<String>,
    /// Log level of the command line, once that has been read.
    pub(super) log_level: LogLevel,
    /// The name that `Host` patterns match.
    pub(super) host: String,
    pub(super) final_pass: bool,
    pub(super) final_wanted: bool,
    /// The user comes from a flag or the destination, where tokens are not expanded.
    pub(super) user_as_typed: bool,
}

/// Position of a line.
pub(super) struct Place {
    /// The file's name in messages.
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) origin: Origin,
}

impl Place {
    pub(super) fn say(&self, message: impl Display) -> String {
        format!("{} line {}: {message}", self.name, self.line)
    }
}

/// How a file is read.
#[derive(Clone, Copy)]
pub(super) struct FileContext {
    /// This is the user's file: relative includes start in `~/.ssh`, and owner and mode are checked.
    pub(super) user: bool,
    pub(super) check_owner: bool,
    pub(super) depth: usize,
    /// Included from a block that does not apply: only checked for errors.
    pub(super) never: bool,
}

impl Loader<'_> {
    pub(super) fn give_up(&mut self) -> ConfigError {
        ConfigError {
            lines: std::mem::take(&mut self.lines),
            log_level: self.log_level,
            ..ConfigError::default()
        }
    }

    pub(super) fn fatal(&mut self, line: String) -> ConfigError {
        self.lines.push(line);
        self.give_up()
    }

    pub(super) fn bad(&mut self, line: String) -> bool {
        self.lines.push(line);
        false
    }

    /// Adds a message for the log.
    pub(super) fn note(&mut self, level: LogLevel, text: String) {
        self.notes.push(Note { level, text });
    }

    /// Adds a debug message about the origin of a setting.
    pub(super) fn debug(&mut self, text: String) {
        self.note(LogLevel::Debug1, text);
    }

    /// Refuses a host name with shell syntax, from the command line as well as from files: no network has
    /// one.
    pub(super) fn check_host(&mut self, host: &str) -> Result<(), ConfigError> {
        if host_is_safe(host) { Ok(()) } else { Err(self.fatal(BAD_HOST.to_string())) }
    }
}
