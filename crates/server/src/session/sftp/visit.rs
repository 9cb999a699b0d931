//! What comes back from a thread that serves SFTP requests.

use lh_sftp::server::{Backlog, Progress, Server, ServerError};

/// What a thread has done for the channel.
pub(super) struct Visit {
    /// The engine, where the thread does not keep it.
    pub(super) server: Option<Box<Server>>,
    pub(super) replies: Backlog,
    pub(super) idle: bool,
    /// `None`: nothing was served.
    pub(super) result: Option<Result<Progress, ServerError>>,
    /// The session is over and accounted for.
    pub(super) closed: bool,
}
