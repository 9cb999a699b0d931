//! Errors of a failed connection.

use std::fmt;

use crate::ui::{LogLevel, UserInterface};

/// Error of a failed [`connect`](crate::connect()). `Display` is the line (or lines) that OpenSSH would
/// print, without the final newline. Every variant means exit status 255.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// The host could not be reached, or its name has no address.
    #[error("{0}")]
    Unreachable(String),
    /// The host was reached and refused the connection: nothing listens on the port.
    #[error("{0}")]
    Refused(String),
    /// The connection ended, or the peer broke the protocol, before the session ran.
    #[error("{0}")]
    Lost(ConnectionLoss),
    /// The user or the policy refused the host key. The warnings before this line were already shown.
    #[error("{0}")]
    HostKey(String),
    /// No method of authentication was accepted.
    #[error("{0}")]
    Denied(String),
    /// The configuration is invalid or requires something unsupported.
    #[error("{0}")]
    Config(String),
    /// A local operation failed.
    #[error("{0}")]
    Local(String),
}

impl ClientError {
    /// The connection ended, with a message of one line that is logged at `level`.
    pub fn lost(level: LogLevel, line: impl Into<String>) -> Self {
        Self::Lost(ConnectionLoss::new(level, line))
    }

    /// Returns the lines of the message, each with the level at which OpenSSH logs it.
    pub fn lines(&self) -> Vec<(LogLevel, &str)> {
        match self {
            Self::Unreachable(text) | Self::Refused(text) => vec![(LogLevel::Error, text)],
            Self::Lost(loss) => loss.lines.iter().map(|(level, text)| (*level, text.as_str())).collect(),
            Self::HostKey(text) | Self::Denied(text) | Self::Config(text) | Self::Local(text) => {
                vec![(LogLevel::Fatal, text)]
            }
        }
    }

    /// Returns the error with the lines that are logged at `level`, which are shown at any other level, too.
    pub(crate) fn logged_at(&self, level: LogLevel) -> Self {
        let lines = self.lines().into_iter().filter(|(of_line, _)| *of_line <= level);
        Self::Lost(ConnectionLoss {
            lines: lines.map(|(_, text)| (LogLevel::Quiet, text.to_owned())).collect(),
        })
    }

    /// Shows the lines that are logged at `level`.
    pub fn show(&self, level: LogLevel, ui: &mut dyn UserInterface) {
        for (of_line, text) in self.lines() {
            if of_line <= level {
                ui.message(of_line, text);
            }
        }
    }
}

/// How a connection ended, in lines of different log levels.
///
/// OpenSSH logs what went wrong as an error, and the line that names the peer (`Connection closed by …`) at
/// level INFO, so `LogLevel=ERROR` hides the second. A line that OpenSSH writes past its log has the level
/// QUIET. Lines that only Longhaul has are errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLoss {
    lines: Vec<(LogLevel, String)>,
}

impl ConnectionLoss {
    /// Returns the message of one line, which is logged at `level`.
    pub fn new(level: LogLevel, line: impl Into<String>) -> Self {
        Self { lines: vec![(level, line.into())] }
    }

    /// Appends a line that is logged at `level`.
    #[must_use]
    pub fn with_line(mut self, level: LogLevel, line: impl Into<String>) -> Self {
        self.lines.push((level, line.into()));
        self
    }

    /// True if a line contains one of `texts`.
    pub fn mentions(&self, texts: &[&str]) -> bool {
        self.lines.iter().any(|(_, line)| texts.iter().any(|text| line.contains(text)))
    }
}

impl fmt::Display for ConnectionLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (_, line)) in self.lines.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n" };
            write!(f, "{separator}{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shown(Vec<String>);

    impl UserInterface for Shown {
        fn message(&mut self, _level: LogLevel, text: &str) {
            self.0.push(text.to_owned());
        }
    }

    fn shown(error: &ClientError, level: LogLevel) -> Vec<String> {
        let mut ui = Shown(Vec::new());
        error.show(level, &mut ui);
        ui.0
    }

    #[test]
    fn each_line_has_its_level() {
        let loss = ConnectionLoss::new(LogLevel::Error, "read failed").with_line(LogLevel::Info, "closed");
        let lost = ClientError::Lost(loss);
        assert_eq!(lost.to_string(), "read failed\nclosed");
        assert_eq!(shown(&lost, LogLevel::Info), ["read failed", "closed"]);
        assert_eq!(shown(&lost, LogLevel::Error), ["read failed"]);
        assert!(shown(&lost, LogLevel::Fatal).is_empty());
        let past_the_log = ClientError::lost(LogLevel::Quiet, "closed");
        assert_eq!(shown(&past_the_log, LogLevel::Quiet), ["closed"]);
        let of_jump_host = lost.logged_at(LogLevel::Error);
        assert_eq!(shown(&of_jump_host, LogLevel::Quiet), ["read failed"]);
        let refused = ClientError::Refused("ssh: refused".to_owned());
        assert!(shown(&refused, LogLevel::Fatal).is_empty() && shown(&refused, LogLevel::Error).len() == 1);
        let denied = ClientError::Denied("Permission denied".to_owned());
        assert!(shown(&denied, LogLevel::Quiet).is_empty() && shown(&denied, LogLevel::Fatal).len() == 1);
    }
}
