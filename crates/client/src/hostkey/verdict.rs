//! The result of looking up a host's key.

use std::path::PathBuf;

/// A line of a known_hosts file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    /// Type of the line's key.
    pub(crate) key_type: String,
    /// The hosts field as written.
    pub(crate) hosts: String,
}

/// Result of looking a key up in the known_hosts files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The key is known for this host.
    Known(Place),
    /// Nothing is known about this host.
    New {
        /// Lines that know this key for other hosts.
        other_names: Vec<Place>,
    },
    /// Another key is known for the host, of any type. An impostor could choose a type that is not known, so
    /// OpenSSH also refuses a change of type.
    Changed(Place),
    /// The key is marked `@revoked`.
    Revoked(Place),
}
