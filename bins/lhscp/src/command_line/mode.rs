//! Which protocol and which route the flags choose.

use lh_cli::flags::{Parsed, SCP, Stop};

/// The protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Sftp,
    /// `-O`.
    Legacy,
}

/// The one of these flags that was given last.
pub(super) fn last_of(parsed: &Parsed, flags: &str) -> Option<char> {
    parsed.flags.iter().rev().map(|(flag, _)| *flag).find(|flag| flags.contains(*flag))
}

/// The last of `-O`, `-s` and `-M` decides.
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
