//! Options of the listener, and the errors that end it.

use std::io;
use std::path::PathBuf;

/// Options of the listener besides the configuration.
#[derive(Debug, Clone, Default)]
pub struct ListenerOptions {
    /// `-D` or `-d`: stay in the foreground.
    pub foreground: bool,
    /// `-d`: serve one connection, then end.
    pub once: bool,
    /// The program and its arguments, which SIGHUP runs again.
    pub restart: Option<(PathBuf, Vec<std::ffi::OsString>)>,
}

/// Why the server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Listening failed on every address; each error has been logged.
    #[error("Cannot bind any address.")]
    NoAddress,
    /// The service manager has passed a socket that the server cannot listen on.
    #[error(
        "Passed socket \"{}\" accepts no network connections (Accept=yes takes -i).", name.escape_default()
    )]
    Passed {
        /// The socket's name in the manager's configuration.
        name: String,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The step that failed.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> ListenError {
    move |error| ListenError::System { what, error }
}
