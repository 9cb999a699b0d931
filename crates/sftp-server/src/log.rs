//! How much is logged, and where to.

use std::fmt;
use std::io::Write;

use lh_sftp::server::{LogLevel, LogSink};
use lh_sys::syslog::{Facility, Severity, Syslog};

/// A level as `-l` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verbosity(Option<LogLevel>);

impl Default for Verbosity {
    fn default() -> Self {
        Self(Some(LogLevel::Error))
    }
}

impl Verbosity {
    /// The level of a word such as `INFO`, in any case.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(Self(match name.to_ascii_uppercase().as_str() {
            "QUIET" | "FATAL" => None,
            "ERROR" => Some(LogLevel::Error),
            "INFO" => Some(LogLevel::Info),
            "VERBOSE" => Some(LogLevel::Verbose),
            "DEBUG" | "DEBUG1" | "DEBUG2" | "DEBUG3" => Some(LogLevel::Debug),
            _ => return None,
        }))
    }

    /// The least important level that is wanted; with none wanted nobody asks for lines that cost something.
    pub fn level(self) -> LogLevel {
        self.0.unwrap_or(LogLevel::Error)
    }

    /// Whether a line of this level is wanted.
    pub fn wants(self, level: LogLevel) -> bool {
        self.0.is_some_and(|most| level <= most)
    }
}

enum Sink {
    Stderr,
    Syslog(Syslog),
}

/// Lines of a server that is a program of its own.
pub struct Lines {
    sink: Sink,
    verbosity: Verbosity,
}

impl Lines {
    /// Lines on standard error (`-e`).
    pub const fn stderr(verbosity: Verbosity) -> Self {
        Self { sink: Sink::Stderr, verbosity }
    }

    /// Lines in the system's log.
    pub fn syslog(verbosity: Verbosity, facility: Facility, name: &str) -> Self {
        Self { sink: Sink::Syslog(Syslog::open(facility, name)), verbosity }
    }
}

impl LogSink for Lines {
    fn level(&self) -> LogLevel {
        self.verbosity.level()
    }

    fn line(&mut self, level: LogLevel, line: fmt::Arguments<'_>) {
        if !self.verbosity.wants(level) {
            return;
        }
        let debug = if level == LogLevel::Debug { "debug1: " } else { "" };
        match &self.sink {
            Sink::Stderr => {
                // Whoever closed standard error does not want to hear.
                let _ = std::io::stderr().write_all(format!("{debug}{line}\r\n").as_bytes());
            }
            Sink::Syslog(log) => {
                let (severity, prefix) = match level {
                    LogLevel::Error => (Severity::Error, "error: "),
                    LogLevel::Info | LogLevel::Verbose => (Severity::Info, ""),
                    LogLevel::Debug => (Severity::Debug, debug),
                };
                log.line(severity, &format!("{prefix}{line}"));
            }
        }
    }
}
