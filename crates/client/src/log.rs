//! Log levels, and the filter in front of the user interface.

use std::fs::File;
use std::io::{self, Write};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use lh_config::special::LogVerbose;
/// Makes text from a peer or a file safe for a terminal.
pub use lh_wire::printable_lines as sanitise;
use lh_wire::shortened;

use crate::syslog::Syslog;
use crate::ui::{LogLevel, Notice, Progress, Secret, UserInterface};

/// Makes at most `longest` bytes of text from a peer safe for a terminal.
pub(crate) fn sanitise_start(text: &str, longest: usize) -> String {
    sanitise(&shortened(text, longest))
}

/// Destination of log messages.
#[derive(Debug, Clone, Default)]
pub enum LogTarget {
    /// Standard error.
    #[default]
    Stderr,
    /// Appended to a file (`-E`).
    File(Arc<File>),
    /// The system's log (`-y`).
    Syslog(Arc<Syslog>),
}

/// The logger while the loop runs and the caller owns the user interface: writes to standard error, a file or
/// syslog. Clones share their level, which `~v` and `~V` change.
#[derive(Debug, Clone)]
pub struct Logger {
    level: Arc<AtomicU8>,
    target: LogTarget,
    places: LogVerbose,
}

impl Default for Logger {
    fn default() -> Self {
        Self::new(LogLevel::default(), LogTarget::Stderr)
    }
}

impl Logger {
    /// Returns a logger for messages up to `level`.
    pub fn new(level: LogLevel, target: LogTarget) -> Self {
        Self { level: Arc::new(AtomicU8::new(level as u8)), target, places: LogVerbose::default() }
    }

    /// Also logs, at any level, messages from these places in the source (`LogVerbose`).
    #[must_use]
    pub fn with_places(mut self, places: &LogVerbose) -> Self {
        self.places = places.clone();
        self
    }

    /// True if messages of this level are logged.
    pub fn shows(&self, level: LogLevel) -> bool {
        level as u8 <= self.level.load(Ordering::Relaxed)
    }

    /// The current level.
    pub fn level(&self) -> LogLevel {
        LogLevel::ALL.into_iter().rev().find(|level| self.shows(*level)).unwrap_or(LogLevel::Quiet)
    }

    /// True if messages go to standard error, not to a file or the system's log.
    pub fn is_on_stderr(&self) -> bool {
        matches!(self.target, LogTarget::Stderr)
    }

    /// Changes the level.
    pub fn set_level(&self, level: LogLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// Logs `text`, line by line.
    #[track_caller]
    pub fn say(&self, level: LogLevel, text: &str) {
        match tag(&self.places) {
            Some(tag) => self.write(level, &format!("{tag} {text}")),
            None if self.shows(level) => self.write(level, text),
            None => {}
        }
    }

    fn write(&self, level: LogLevel, text: &str) {
        let prefix = match level {
            LogLevel::Debug1 => "debug1: ",
            LogLevel::Debug2 => "debug2: ",
            LogLevel::Debug3 => "debug3: ",
            _ => "",
        };
        if let LogTarget::Syslog(syslog) = &self.target {
            return text.lines().for_each(|line| syslog.line(level, &format!("{prefix}{line}")));
        }
        // The terminal may be in raw mode, so lines end with CR LF, as OpenSSH's do.
        let end = if matches!(self.target, LogTarget::File(_)) { "\n" } else { "\r\n" };
        let mut out = String::new();
        // Text from a configuration file, a server or a user may contain control characters.
        for line in lh_wire::printable_lines(text).lines() {
            out.push_str(prefix);
            out.push_str(line);
            out.push_str(end);
        }
        // There is no way to report that even this failed.
        let _ = match &self.target {
            LogTarget::File(file) => (&**file).write_all(out.as_bytes()),
            _ => io::stderr().write_all(out.as_bytes()),
        };
    }

    /// Logs a debug message; `text` is called only if it will be shown.
    #[track_caller]
    pub fn debug(&self, text: impl FnOnce() -> String) {
        if self.shows(LogLevel::Debug1) || !self.places.0.is_empty() {
            self.say(LogLevel::Debug1, &text());
        }
    }
}

/// Returns the source location of the caller's caller as a tag, if it matches `places`.
#[track_caller]
fn tag(places: &LogVerbose) -> Option<String> {
    if places.0.is_empty() {
        return None;
    }
    let place = Location::caller();
    places.tag(place.file(), &module_of(place.file()), place.line())
}

/// Returns the module of a source file of the workspace: `crates/client/src/login/mod.rs` is
/// `lh_client::login`.
fn module_of(file: &str) -> String {
    let mut parts: Vec<&str> = file
        .trim_end_matches(".rs")
        .split('/')
        .filter(|part| !matches!(*part, "src" | "mod" | "lib"))
        .collect();
    if let Some(root) = parts.iter().position(|part| matches!(*part, "crates" | "bins")) {
        let program = parts.get(root) == Some(&"bins");
        parts.drain(..=root);
        return format!("{}{}", if program { "" } else { "lh_" }, parts.join("::").replace('-', "_"));
    }
    parts.join("::")
}

/// The user interface, filtered by the configured log level.
pub(crate) struct Log<'u> {
    ui: &'u mut dyn UserInterface,
    level: LogLevel,
    /// Ask no questions (`BatchMode`).
    batch: bool,
    places: LogVerbose,
}

impl<'u> Log<'u> {
    pub(crate) fn new(ui: &'u mut dyn UserInterface, level: LogLevel, batch: bool) -> Self {
        Self { ui, level, batch, places: LogVerbose::default() }
    }

    /// Shows debug messages of these places in the code at any level (`LogVerbose`).
    #[must_use]
    pub(crate) fn with_places(self, places: LogVerbose) -> Self {
        Self { places, ..self }
    }

    /// Returns the level until now.
    pub(crate) const fn set_level(&mut self, level: LogLevel) -> LogLevel {
        std::mem::replace(&mut self.level, level)
    }

    pub(crate) fn shows(&self, level: LogLevel) -> bool {
        level <= self.level
    }

    #[track_caller]
    pub(crate) fn error(&mut self, text: &str) {
        self.say(LogLevel::Error, text);
    }

    #[track_caller]
    pub(crate) fn info(&mut self, text: &str) {
        self.say(LogLevel::Info, text);
    }

    #[track_caller]
    pub(crate) fn verbose(&mut self, text: &str) {
        self.say(LogLevel::Verbose, text);
    }

    /// Logs a debug message; `text` is called only if it will be shown, since most runs are not debugged.
    #[track_caller]
    pub(crate) fn debug(&mut self, text: impl FnOnce() -> String) {
        if self.shows(LogLevel::Debug1) || !self.places.0.is_empty() {
            self.say(LogLevel::Debug1, &text());
        }
    }

    #[track_caller]
    pub(crate) fn debug2(&mut self, text: impl FnOnce() -> String) {
        if self.shows(LogLevel::Debug2) || !self.places.0.is_empty() {
            self.say(LogLevel::Debug2, &text());
        }
    }

    #[track_caller]
    pub(crate) fn say(&mut self, level: LogLevel, text: &str) {
        match tag(&self.places) {
            Some(tag) => self.ui.message(level, &format!("{tag} {text}")),
            None if self.shows(level) => self.ui.message(level, text),
            None => {}
        }
    }

    /// Shows a warning on standard error, at any log level and wherever the log goes.
    pub(crate) fn warn(&mut self, text: &str) {
        self.ui.banner(&format!("{text}\n"));
    }

    /// Shows the login banner. It is part of the conversation, not of the log: only `-q` and lower levels
    /// hide it. The text is the server's.
    pub(crate) fn banner(&mut self, text: &str) {
        if self.shows(LogLevel::Info) {
            self.ui.banner(&sanitise(text));
        }
    }

    /// Reports the stage that the connection has reached.
    pub(crate) fn progress(&mut self, progress: Progress) {
        self.ui.progress(progress);
    }

    pub(crate) fn ask(&mut self, prompt: &str) -> Option<Secret> {
        if self.batch { None } else { self.ui.ask(prompt) }
    }

    pub(crate) fn ask_secret(&mut self, prompt: &str) -> Option<Secret> {
        if self.batch { None } else { self.ui.ask_secret(prompt) }
    }

    /// Asks the user for permission.
    pub(crate) fn confirm(&mut self, prompt: &str) -> bool {
        !self.batch && self.ui.confirm(prompt)
    }

    /// Shows a text on the user's display until the result is dropped.
    pub(crate) fn notify(&mut self, text: &str) -> Option<Notice> {
        self.ui.notify(text)
    }

    pub(crate) fn is_batch(&self) -> bool {
        self.batch
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn source_files_map_to_their_modules() {
        for (file, module) in [
            ("crates/client/src/login/mod.rs", "lh_client::login"),
            ("/far/away/crates/sftp-shell/src/lib.rs", "lh_sftp_shell"),
            ("bins/lhssh/src/run.rs", "lhssh::run"),
            ("elsewhere.rs", "elsewhere"),
        ] {
            assert_eq!(super::module_of(file), module);
        }
    }

    use super::*;

    #[test]
    fn peer_escape_sequences_do_not_reach_the_terminal() {
        assert_eq!(sanitise("hello\r\n\tworld"), "hello\n\tworld");
        assert_eq!(sanitise("\x1b[31mred"), "\\033[31mred");
        assert_eq!(sanitise("grüß \u{202e}x\u{9b}"), "grüß \\342\\200\\256x\\302\\233");
    }
}
