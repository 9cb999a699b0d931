//! Log level and log destination.

use std::fmt;
use std::io::Write;

use lh_sftp::server::{LogLevel, LogSink};
use lh_sys::syslog::{Facility, Severity, Syslog};

/// A log level of `-l`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verbosity(Option<LogLevel>);

impl Default for Verbosity {
    fn default() -> Self {
        Self(Some(LogLevel::Error))
    }
}

impl Verbosity {
    /// Finds the level of a word such as `INFO`, in any case.
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

    /// Returns the least important level that is logged. Without logging it returns `Error`, so that no
    /// expensive lines are produced.
    pub fn level(self) -> LogLevel {
        self.0.unwrap_or(LogLevel::Error)
    }

    /// Returns true when lines of this level are logged.
    pub fn wants(self, level: LogLevel) -> bool {
        self.0.is_some_and(|most| level <= most)
    }
}

enum Sink {
    Stderr,
    Syslog(Syslog),
}

/// Log of a server that is a separate program.
pub struct Lines {
    sink: Sink,
    verbosity: Verbosity,
}

impl Lines {
    /// Logs to standard error (`-e`).
    pub const fn stderr(verbosity: Verbosity) -> Self {
        Self { sink: Sink::Stderr, verbosity }
    }

    /// Logs to the system log.
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
                // Errors are ignored: standard error may be closed.
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
