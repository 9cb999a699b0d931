//! The ways in which a command ends: their names for programs, and the exit statuses. docs/copying.md has the
//! table, and a test holds it against this module.

/// Result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was copied, and verified where that was to be done.
    Complete,
    /// Something was not copied, the rest was.
    Partial,
    /// Nothing was copied, or the command line makes no sense.
    Failed,
    /// Stopped by a signal.
    Interrupted,
    /// The connection was lost for good, or no SFTP server answered.
    Lost,
    /// There was no connection.
    NoConnection,
}

/// How far a command came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Nothing was copied, and no connection was lost.
    Nothing,
    /// A connection was there, and was lost before anything was copied.
    Connected,
    /// Something was copied.
    Copied,
}

impl Outcome {
    /// Its name in `--json` and manifests.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Lost => "lost",
            Self::NoConnection => "no_connection",
        }
    }

    /// The exit status. Those of scp(1), which scripts know, and for signals what a shell says of a program
    /// that SIGINT has ended.
    pub(crate) const fn status(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Partial | Self::Failed => 1,
            Self::Interrupted => 130,
            Self::Lost | Self::NoConnection => 255,
        }
    }

    /// Translates an exit status.
    pub(crate) const fn of(status: u8, reached: Reached) -> Self {
        let moved = matches!(reached, Reached::Copied);
        if status == Self::Complete.status() {
            Self::Complete
        } else if status == Self::Interrupted.status() {
            Self::Interrupted
        } else if status == Self::Lost.status() {
            if moved || matches!(reached, Reached::Connected) { Self::Lost } else { Self::NoConnection }
        } else if moved {
            Self::Partial
        } else {
            Self::Failed
        }
    }
}

/// Message of `scp -O` about a lost connection.
pub(crate) const LOST: &str = "lost connection";

/// Exit status when something was not copied.
pub(crate) const FAILURE: u8 = Outcome::Failed.status();

/// Exit status when there was no connection, or it was lost.
pub(crate) const NO_CONNECTION: u8 = Outcome::NoConnection.status();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_documentation_has_each_outcome() {
        let page = include_str!("../../../docs/copying.md");
        for outcome in [
            Outcome::Complete,
            Outcome::Partial,
            Outcome::Failed,
            Outcome::Interrupted,
            Outcome::Lost,
            Outcome::NoConnection,
        ] {
            let row = format!("| {} | `{}` |", outcome.status(), outcome.name());
            assert_eq!(page.matches(&row).count(), 1, "docs/copying.md lacks {row}");
        }
        assert_eq!(page.matches("| 1 | `").count(), 2, "a row without an outcome");
    }
}
