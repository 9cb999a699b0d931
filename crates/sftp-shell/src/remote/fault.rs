//! Why requests fail and sessions end.

use lh_sftp::{Status, StatusCode};
use lh_transfer::status_text;

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The server reported an error.
    Status(Status),
    /// A listing broke off: what else is in the directory is not known.
    Unread(Status),
    /// The server's replies exceed a limit; the message for the user.
    Refused(String),
    /// The connection is lost.
    Lost,
}

impl Fault {
    pub(super) fn bad_message() -> Self {
        Self::Status(Status { code: StatusCode::BAD_MESSAGE, message: String::new() })
    }

    /// The reason, in the words of OpenSSH's `sftp`.
    pub fn text(&self) -> String {
        match self {
            Self::Status(status) | Self::Unread(status) => status_text(status),
            Self::Refused(why) => why.clone(),
            Self::Lost => "Connection closed".to_owned(),
        }
    }

    /// Returns true when the file does not exist.
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::Status(Status { code: StatusCode::NO_SUCH_FILE, .. }))
    }
}

/// Why a session ended before its first command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionEnd {
    /// The user pressed ^C.
    #[error("Interrupted")]
    Interrupted,
    /// The connection is lost, or the server does not speak SFTP: the reason for the user.
    #[error("{0}")]
    Lost(String),
    /// The server does not report the directory that it starts in.
    #[error("realpath .: {}\nNeed cwd", .0.text())]
    NoDirectory(Fault),
}

/// The result of a request.
pub type Answer<T> = Result<T, Fault>;
