//! Configuration errors, in OpenSSH's words.

use std::fmt;

use crate::enums::LogLevel;

/// A configuration that cannot be used.
///
/// Like OpenSSH, a loader reports every bad line of a file and then fails. Each entry of
/// [`lines`](Self::lines) is one complete line for standard error, in OpenSSH's words, because scripts match
/// them. `ssh` then exits with status 255; the status of `sshd` depends on [`fault`](Self::fault).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigError {
    /// The lines to print, without newlines.
    pub lines: Vec<String>,
    /// The part that is wrong.
    pub fault: ConfigFault,
    /// Log level that the command line of a client asks for (`-q`, `-o LogLevel`). It applies to mistakes in
    /// files, not to those of the command line itself.
    pub log_level: LogLevel,
}

/// The part of a configuration that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConfigFault {
    /// The text of a file: for instance an unknown keyword or an invalid value.
    #[default]
    Text,
    /// The file named on the command line cannot be read.
    Unreadable,
    /// An option of the command line. For a server only an `-o` that is not a valid statement: an unknown
    /// keyword, no value, too many values, or open quotes.
    Option,
}

impl ConfigError {
    /// Returns an error with one line.
    pub fn new(line: impl Into<String>) -> Self {
        Self { lines: vec![line.into()], ..Self::default() }
    }

    /// Returns what a client logs of this error: as with `ssh`, nothing at level `QUIET`, and only the last
    /// line, which says why the program ends, at `FATAL`.
    pub fn logged(&self) -> Option<String> {
        let from = match self.log_level {
            LogLevel::Quiet => return None,
            LogLevel::Fatal => self.lines.len().saturating_sub(1),
            _ => 0,
        };
        Some(self.lines[from..].join("\n"))
    }
}

/// Returns the lines of a message about the statement at `origin`. The last line includes the position; the
/// lines before it give details of the value.
pub(crate) fn lines_at(origin: &str, message: &str) -> Vec<String> {
    let (before, last) =
        message.rsplit_once('\n').map_or((None, message), |(before, last)| (Some(before), last));
    let before = before.into_iter().flat_map(str::lines).map(str::to_owned);
    before.chain([format!("{origin}: {last}")]).collect()
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(line)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// Returns the text of an operating system error, without Rust's "(os error N)".
pub(crate) fn errno_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_string(),
        None => text,
    }
}
