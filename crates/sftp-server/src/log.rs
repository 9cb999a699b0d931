//! The log of a server that is a separate program.

use std::fmt;
use std::io::Write;

use lh_sftp::server::{LogLevel, LogSink};
use lh_sys::syslog::{Facility, Severity, Syslog};

enum Sink {
    Stderr,
    Syslog(Syslog),
}

/// Log lines of a session, to standard error or the system log.
pub struct Lines {
    sink: Sink,
    /// The least important level that is logged.
    level: LogLevel,
}

impl Lines {
    /// Logs lines up to `level` to standard error (`-e`).
    pub const fn stderr(level: LogLevel) -> Self {
        Self { sink: Sink::Stderr, level }
    }

    /// Logs lines up to `level` to the system log.
    pub fn syslog(level: LogLevel, facility: Facility, name: &str) -> Self {
        Self { sink: Sink::Syslog(Syslog::open(facility, name)), level }
    }
}

impl LogSink for Lines {
    fn level(&self) -> LogLevel {
        self.level
    }

    fn line(&mut self, level: LogLevel, line: fmt::Arguments<'_>) {
        if level > self.level {
            return;
        }
        let debug = if level >= LogLevel::Debug1 { "debug1: " } else { "" };
        match &self.sink {
            Sink::Stderr => {
                // Errors are ignored: standard error may be closed.
                let _ = std::io::stderr().write_all(format!("{debug}{line}\r\n").as_bytes());
            }
            Sink::Syslog(log) => {
                let (severity, prefix) = match level {
                    LogLevel::Quiet | LogLevel::Fatal | LogLevel::Error => (Severity::Error, "error: "),
                    LogLevel::Info | LogLevel::Verbose => (Severity::Info, ""),
                    LogLevel::Debug1 | LogLevel::Debug2 | LogLevel::Debug3 => (Severity::Debug, debug),
                };
                log.line(severity, &format!("{prefix}{line}"));
            }
        }
    }
}
