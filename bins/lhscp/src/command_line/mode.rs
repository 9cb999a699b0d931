//! Choice of the protocol by flags.

use lh_cli::flags::{Parsed, SCP, Stop};

/// The protocol of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Sftp,
    /// `-O`.
    Legacy,
}

/// Returns the last flag of the command line that is one of `flags`.
pub(super) fn last_of(parsed: &Parsed, flags: &str) -> Option<char> {
    parsed.flags.iter().rev().map(|(flag, _)| *flag).find(|flag| flags.contains(*flag))
}

/// Returns the protocol that the last of `-O`, `-s` and `-M` chooses; SFTP without any.
///
/// # Errors
/// The value of `-M` is neither `scp` nor `sftp`.
pub(super) fn mode(parsed: &Parsed) -> Result<Mode, Stop> {
    match last_of(parsed, "OsM") {
        Some('O') => Ok(Mode::Legacy),
        Some('M') => match parsed.text('M').as_deref() {
            Some("scp") => Ok(Mode::Legacy),
            Some("sftp") => Ok(Mode::Sftp),
            _ => Err(SCP.usage_error("invalid mode")),
        },
        _ => Ok(Mode::Sftp),
    }
}
