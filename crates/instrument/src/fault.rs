//! Why something was not measured, by where the fault is. Words are for people, at the edge.

use std::io;
use std::path::PathBuf;

use lh_client::ClientError;
use lh_config::ConfigError;
use lh_sys::errno_text;

/// Why something was not measured.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The flags or files of the configuration.
    #[error(transparent)]
    Configuration(Box<ConfigError>),
    /// The host was not reached, or there was no login: OpenSSH's words.
    #[error(transparent)]
    Connection(Box<ClientError>),
    /// What listens at a port is no SSH server, or a server that does not answer.
    #[error("{place}: {fault}")]
    NoServer {
        /// Host and port.
        place: String,
        /// What listens at the port instead.
        fault: NoServer,
    },
    /// The server runs no commands for this user.
    #[error("the server runs no commands for this user: {0}")]
    NoCommands(String),
    /// The server lacks something or does not do it: its words.
    #[error("{0}")]
    Server(String),
    /// Something took longer than it may.
    #[error("{0}")]
    Late(&'static str),
    /// A file or directory of this machine.
    #[error("{}: {}", path.display(), errno_text(error))]
    File {
        /// Its path.
        path: PathBuf,
        /// Why it cannot be used.
        error: io::Error,
    },
    /// Something else that this machine or a connection of its does not do.
    #[error("{what}: {}", errno_text(error))]
    System {
        /// The action that failed.
        what: String,
        /// Why.
        error: io::Error,
    },
    /// A client that was started: its last words.
    #[error("{0}")]
    Client(String),
    /// Results of a run cannot be read.
    #[error(transparent)]
    Results(#[from] NoResults),
    /// A fault, and what was being measured.
    #[error("{what}: {fault}")]
    During {
        /// The measurement that failed.
        what: String,
        /// The fault.
        fault: Box<Self>,
    },
}

impl Fault {
    /// Adds to the fault what was being measured.
    pub(crate) fn during(self, what: impl Into<String>) -> Self {
        Self::During { what: what.into(), fault: Box::new(self) }
    }

    /// Reports a fault of starting or using a program of this machine.
    pub(crate) fn program(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::File { path, error }
    }

    /// Reports the last words of a client, or that it had none.
    pub(crate) fn client(words: &str) -> Self {
        let words = words.trim();
        Self::Client(if words.is_empty() {
            "it failed without a message".to_owned()
        } else {
            lh_client::sanitise(words)
        })
    }
}

/// Listener at a port that is no SSH server.
#[derive(Debug, thiserror::Error)]
pub enum NoServer {
    /// The name has no address.
    #[error("no address")]
    NoAddress,
    /// The connection cannot be made, or is lost.
    #[error("{}", errno_text(.0))]
    Connect(io::Error),
    /// It closed the connection before it said anything.
    #[error("the connection was closed before the server's greeting")]
    Closed,
    /// It refuses the connection: its words.
    #[error("the server refuses the connection: {0:?}")]
    Refused(String),
    /// It says nothing.
    #[error("connected, but no greeting within {0} s; is this an SSH server?")]
    Silent(u64),
    /// It speaks another protocol.
    #[error("no SSH server: it says {0:?}")]
    OtherProtocol(String),
}

/// Why results of a run cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoResults {
    /// A version that this program does not know.
    #[error("results of longhaul bench in version {found}; this program knows version {known}")]
    Version {
        /// The version of the results.
        found: u64,
        /// The version that it knows.
        known: u64,
    },
    /// A member is missing or wrong.
    #[error("not the results of longhaul bench: no {0}")]
    Member(&'static str),
    /// The run that they are about has failed, and says why.
    #[error("{0}")]
    Failed(String),
}

/// Why a list of paths cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadList {
    /// A line has neither one host nor two.
    #[error("line {0}: not one host, nor two")]
    Line(usize),
    /// There is no host in it.
    #[error("no hosts")]
    Empty,
}
