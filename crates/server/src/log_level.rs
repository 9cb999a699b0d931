//! Levels of log lines, as `LogLevel` names them.

use lh_sys::syslog::Severity;

/// How much is logged; each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing at all.
    Quiet,
    /// What ends the process.
    Fatal,
    /// What went wrong.
    Error,
    /// Logins and the like: the default.
    Info,
    /// A little more.
    Verbose,
    /// For finding faults.
    Debug1,
    /// More of it.
    Debug2,
    /// All of it.
    Debug3,
}

impl Level {
    const ALL: [Self; 8] = [
        Self::Quiet,
        Self::Fatal,
        Self::Error,
        Self::Info,
        Self::Verbose,
        Self::Debug1,
        Self::Debug2,
        Self::Debug3,
    ];

    /// The level of a configuration word; `DEBUG` is `DEBUG1`, `SILENT` is `QUIET`.
    pub fn by_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("DEBUG") {
            return Some(Self::Debug1);
        }
        if name.eq_ignore_ascii_case("SILENT") {
            return Some(Self::Quiet);
        }
        Self::ALL.into_iter().find(|level| format!("{level:?}").eq_ignore_ascii_case(name))
    }

    /// One level up per `-d`.
    pub const fn debug(count: usize) -> Option<Self> {
        match count {
            0 => None,
            1 => Some(Self::Debug1),
            2 => Some(Self::Debug2),
            _ => Some(Self::Debug3),
        }
    }

    pub(crate) fn from_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Debug3)
    }

    /// What stands in front of the line. On standard error an error stands alone, as OpenSSH prints it.
    pub(crate) const fn prefix(self, syslog: bool) -> &'static str {
        match self {
            Self::Fatal => "fatal: ",
            Self::Error if syslog => "error: ",
            Self::Debug1 => "debug1: ",
            Self::Debug2 => "debug2: ",
            Self::Debug3 => "debug3: ",
            _ => "",
        }
    }

    pub(crate) const fn severity(self) -> Severity {
        match self {
            Self::Quiet | Self::Fatal => Severity::Critical,
            Self::Error => Severity::Error,
            Self::Info | Self::Verbose => Severity::Info,
            _ => Severity::Debug,
        }
    }
}
