//! The environment of a configuration: the facts that it depends on besides its text.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::algorithm_kind::AlgorithmKind;

/// The local user that runs the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Login name.
    pub name: String,
    /// Numeric id.
    pub uid: u32,
    /// Home directory.
    pub home: PathBuf,
    /// This machine's name, from `gethostname`.
    pub host_name: String,
}

/// Why a command of `Match exec` has no status. `Display` gives OpenSSH's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandFailure {
    /// The user's shell cannot be executed.
    #[error("Shell \"{shell}\" is not executable: {why}")]
    Shell {
        /// The path of the shell.
        shell: String,
        /// The text of the system's error.
        why: String,
    },
    /// The system refuses to run the shell.
    #[error("Unable to execute '{command}': {why}")]
    Start {
        /// The command.
        command: String,
        /// The text of the system's error.
        why: String,
    },
    /// A signal ended the command.
    #[error("command '{0}' exited abnormally")]
    Abnormal(String),
}

/// The environment that the loaders use. Tests have a fake one.
pub trait Environment {
    /// Returns an environment variable.
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    /// Runs the command of `Match exec` with the user's shell; true if it exits with status 0.
    ///
    /// # Errors
    /// See [`CommandFailure`]. Without an implementation, no command holds.
    fn run(&self, _command: &str) -> Result<bool, CommandFailure> {
        Ok(false)
    }

    /// Returns whether only `uid` and root can write a file. Without an implementation, the file's group
    /// counts as others.
    fn only_owner_writes(&self, _path: &Path, metadata: &Metadata, uid: u32) -> bool {
        (metadata.uid() == 0 || metadata.uid() == uid) && metadata.mode() & 0o022 == 0
    }

    /// Computes SHA-1, for the token `%C`.
    fn sha1(&self, data: &[u8]) -> [u8; 20];

    /// Returns the home directory of another user, for `~name/…`.
    fn home_of(&self, _user: &str) -> Option<PathBuf> {
        None
    }

    /// Returns the home directory of the user that runs the server, for `~/…` in `sshd_config`.
    fn own_home(&self) -> Option<PathBuf> {
        self.variable("HOME").map(PathBuf::from)
    }

    /// Returns whether an algorithm with this name exists; with `pattern`, the name may be a pattern.
    fn knows_algorithm(&self, _kind: AlgorithmKind, _name: &str, _pattern: bool) -> bool {
        true
    }

    /// Returns the algorithms that a pattern matches.
    fn matching_algorithms(&self, _kind: AlgorithmKind, _pattern: &str) -> Vec<&'static str> {
        Vec::new()
    }

    /// Looks up a name, for `CanonicalizeHostname`. Returns `None` if it has no address, else the target of
    /// its alias or the name itself.
    fn canonical_name(&self, _name: &str, _family: crate::enums::AddressFamily) -> Option<String> {
        None
    }

    /// Returns the addresses of the network interfaces, for `Match localnetwork`.
    fn local_addresses(&self) -> Vec<std::net::IpAddr> {
        Vec::new()
    }
}
