//! Options of the listener, and the errors that end it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Options of the listener besides the configuration.
#[derive(Debug, Clone, Default)]
pub struct ListenerOptions {
    /// `-D` or `-d`: stay in the foreground.
    pub foreground: bool,
    /// `-d`: serve one connection, then end.
    pub once: bool,
    /// What SIGHUP runs again.
    pub restart: Option<Restart>,
}

/// The program that is running, to be executed again.
#[derive(Debug, Clone)]
pub struct Restart {
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments, the first one being the name that it was called by.
    pub arguments: Vec<OsString>,
    /// The directory that it was started in, from which its relative names of files start.
    pub directory: Option<PathBuf>,
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
