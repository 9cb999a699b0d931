//! The state of one session: the server, the settings and the remote working directory.

use crate::remote::{Fault, Remote, SessionEnd};
use crate::settings::Settings;

/// Why a command failed. Its message has been printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// A batch ends here.
    Command,
    /// The connection is gone.
    Lost,
}

/// Result of a command.
pub(crate) type Outcome = Result<(), Failed>;

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Lost => Self::Lost,
            Fault::Status(_) | Fault::Unread(_) | Fault::Refused(_) => Self::Command,
        }
    }
}

/// The state of one session.
pub struct Shell {
    pub(crate) remote: Remote,
    pub(crate) settings: Settings,
    /// Directory in which the session started; absolute.
    pub(crate) home: Vec<u8>,
    /// The remote working directory; absolute.
    pub(crate) directory: Vec<u8>,
}

impl Shell {
    /// A session in the directory the server starts in.
    ///
    /// # Errors
    /// The server does not report the directory.
    pub fn new(mut remote: Remote, settings: Settings) -> Result<Self, SessionEnd> {
        match remote.home() {
            Ok(home) => Ok(Self { remote, settings, directory: home.clone(), home }),
            Err(Fault::Lost) => Err(SessionEnd::Lost(remote.loss().unwrap_or_default())),
            Err(fault) => Err(SessionEnd::NoDirectory(fault)),
        }
    }
}

#[cfg(test)]
mod tests {
    use lh_sftp::{Status, StatusCode};

    use super::*;

    #[test]
    fn errors_say_why_there_is_no_session() {
        let status = |message: &str| Status { code: StatusCode::FAILURE, message: message.to_owned() };
        for (end, text) in [
            (SessionEnd::Interrupted, "Interrupted"),
            (SessionEnd::Lost("Connection closed".to_owned()), "Connection closed"),
            (SessionEnd::NoDirectory(Fault::Status(status("gone"))), "realpath .: gone\nNeed cwd"),
        ] {
            assert_eq!(end.to_string(), text);
        }
    }
}
