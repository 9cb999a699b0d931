//! Output for the user beside the session's: messages, errors, the status of a failure.

use std::io::Write;

use lh_client::{ClientError, LogLevel, Options, UserInterface};
use lh_terminal::TerminalUi;

/// Exit status of all failures of lhssh itself.
pub(crate) const FAILURE: u8 = 255;

/// Reports why the connection failed or ended, as far as the log level shows it.
pub(crate) fn report_connection(options: &Options, error: &ClientError, ui: &mut TerminalUi) -> u8 {
    error.show(options.log_level, ui);
    FAILURE
}

/// Reports a fatal error, unless the log level forbids it.
pub(crate) fn report(options: &Options, error: &dyn std::error::Error, ui: &mut TerminalUi) -> u8 {
    if options.log_level >= LogLevel::Fatal {
        ui.say(&error.to_string());
    }
    FAILURE
}

/// Logs a message at level DEBUG1; `text` is only called where that level is logged.
pub(crate) fn debug(options: &Options, ui: &mut TerminalUi, text: impl FnOnce() -> String) {
    if options.log_level >= LogLevel::Debug1 {
        ui.message(LogLevel::Debug1, &text());
    }
}

/// Writes a text to the user, on standard error, beside the session's output.
pub(crate) fn show(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
