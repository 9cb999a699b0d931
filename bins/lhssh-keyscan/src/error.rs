//! Errors of the command line, and of one host.

use std::io;
use std::path::PathBuf;

use lh_driver::LinkError;
use lh_wire::WireError;

/// The command line or a file of hosts is wrong; nothing is asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("Bad port '{0}'")]
    Port(String),
    #[error("Bad timeout '{0}'")]
    Timeout(String),
    #[error("Unknown key type \"{0}\"")]
    KeyType(String),
    #[error("Unsupported -O option")]
    Option,
    #[error("Unsupported hash algorithm")]
    Hash,
    #[error("Invalid address range \"{0}\"")]
    Range(String),
    #[error("Address range \"{0}\" is too large")]
    LargeRange(String),
    #[error("Could not open \"{}\": {}", .path.display(), lh_sys::errno_text(.source))]
    File { path: PathBuf, source: io::Error },
}

impl PlanError {
    /// Returns whether OpenSSH's program does not call the error fatal.
    pub(crate) const fn is_malformed(&self) -> bool {
        matches!(self, Self::Port(_) | Self::Timeout(_))
    }
}

/// A connection that ends without the host's key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    #[error(transparent)]
    Local(io::Error),
    /// The host closes the connection before its identification, as overloaded servers do.
    #[error("closed")]
    Closed,
    /// The connection breaks before the host's identification.
    #[error("broken")]
    Broken,
    #[error(transparent)]
    Link(LinkError),
    /// The host's key cannot be parsed.
    #[error(transparent)]
    Key(WireError),
    /// The host disconnects with this description.
    #[error("{0}")]
    Disconnected(String),
}
