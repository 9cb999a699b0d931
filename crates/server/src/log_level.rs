//! Log levels as they appear in a log.

pub use lh_config::enums::LogLevel as Level;
use lh_sys::syslog::Severity;

/// Returns the level for this number of `-d` flags.
pub const fn debug(count: usize) -> Option<Level> {
    match count {
        0 => None,
        1 => Some(Level::Debug1),
        2 => Some(Level::Debug2),
        _ => Some(Level::Debug3),
    }
}

/// Returns the prefix of a line. On standard error, error lines have none, as in OpenSSH.
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

/// Returns the syslog severity of a level.
pub(crate) const fn severity(level: Level) -> Severity {
    match level {
        Level::Quiet | Level::Fatal => Severity::Critical,
        Level::Error => Severity::Error,
        Level::Info | Level::Verbose => Severity::Info,
        _ => Severity::Debug,
    }
}
