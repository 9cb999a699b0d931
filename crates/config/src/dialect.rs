//! The two programs whose files this crate parses.

/// The program whose file is parsed: a few messages differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `ssh_config`.
    Client,
    /// `sshd_config`.
    Server,
}
