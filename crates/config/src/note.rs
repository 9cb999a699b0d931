//! Messages of the loaders for the log.

use crate::enums::LogLevel;

/// A note for the log: not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Level of the log from which on the note is logged.
    pub level: LogLevel,
    /// Text of the note: one line.
    pub text: String,
}
