//! The result of a thread's work on SFTP requests.

use lh_sftp::server::{Backlog, Progress, Server, ServerError};

/// The result of one visit of the engine to a thread.
pub(super) struct Visit {
    /// The engine; `None` where the thread keeps it.
    pub(super) server: Option<Box<Server>>,
    pub(super) replies: Backlog,
    pub(super) idle: bool,
    /// The engine's progress; `None`: the thread was unsuitable and served nothing.
    pub(super) result: Option<Result<Progress, ServerError>>,
    /// The thread has closed and recorded all files.
    pub(super) closed: bool,
}
