//! What a configuration depends on besides its text.

use std::path::PathBuf;

use crate::algorithms::AlgorithmKind;

/// The local user who runs the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// Numeric id.
    pub uid: u32,
    /// Home directory.
    pub home: PathBuf,
    /// Name of this machine, as `gethostname` gives it.
    pub host_name: String,
}

/// The outside world, as far as reading a configuration needs it. Tests give a made-up one.
pub trait Environment {
    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    /// Runs the command of `Match exec` with the user's shell; whether it exits with status 0.
    fn run(&self, command: &str) -> bool;

    /// SHA-1, for the token `%C`.
    fn sha1(&self, data: &[u8]) -> [u8; 20];

    /// The home directory of another user, for `~name/…`.
    fn home_of(&self, _user: &str) -> Option<PathBuf> {
        None
    }

    /// Whether an algorithm of this name exists; the name may be a pattern when `pattern` is set.
    fn knows_algorithm(&self, _kind: AlgorithmKind, _name: &str, _pattern: bool) -> bool {
        true
    }

    /// The algorithms that a pattern stands for.
    fn matching_algorithms(&self, _kind: AlgorithmKind, _pattern: &str) -> Vec<&'static str> {
        Vec::new()
    }

    /// Asks the resolver for a name: `None` when it has no address there, otherwise the name it is an alias of (or its
    /// own). For `CanonicalizeHostname`.
    fn canonical_name(&self, _name: &str, _family: crate::enums::AddressFamily) -> Option<String> {
        None
    }

    /// The addresses of our network interfaces, for `Match localnetwork`.
    fn local_addresses(&self) -> Vec<std::net::IpAddr> {
        Vec::new()
    }
}
