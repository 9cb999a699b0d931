//! How levels of log lines appear.

pub use lh_config::enums::LogLevel as Level;
use lh_sys::syslog::Severity;

/// Returns the level for this many `-d`.
pub const fn debug(count: usize) -> Option<Level> {
    match count {
        0 => None,
        1 => Some(Level::Debug1),
        2 => Some(Level::Debug2),
        _ => Some(Level::Debug3),
    }
}

/// Returns what stands in front of a line. On standard error an error stands alone, as OpenSSH prints it.
pub(crate) const fn prefix(level: Level, syslog: bool) -> &'static str {
    match level {
        Level::Fatal => "fatal: ",
        Level::Error if syslog => "error: ",
        Level::Debug1 => "debug1: ",
        Level::Debug2 => "debug2: ",
        Level::Debug3 => "debug3: ",
        _ => "",
    }
}

/// Returns the severity for the system's log.
pub(crate) const fn severity(level: Level) -> Severity {
    match level {
        Level::Quiet | Level::Fatal => Severity::Critical,
        Level::Error => Severity::Error,
        Level::Info | Level::Verbose => Severity::Info,
        _ => Severity::Debug,
    }
}
