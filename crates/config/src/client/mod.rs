//! Loads the client's configuration for one destination.
//!
//! The first value wins, in this order: command line, the user's file, the system's file. Keywords in `Host`
//! and `Match` blocks that do not apply are checked but have no effect.

mod canonical;
mod config;
mod criteria;
mod finish;
mod lines;
mod load;
mod loader;

pub use config::{ClientConfig, IdentityFile, JumpHost};
pub use load::load;

use std::path::PathBuf;

use crate::environment::Account;

/// One argument of the command line, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// The text of an `-o`: `Keyword=value` or `Keyword value`, parsed like a line of a file.
    Option(String),
    /// A flag with the meaning of a keyword: its words are used unparsed, spaces and quotes included (`-i`,
    /// `-p`, `-l`).
    Flag(&'static str, Vec<String>),
}

/// The source of the user's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum UserFile {
    /// `~/.ssh/config` if it exists; its owner and mode are checked. The system's file is read too.
    #[default]
    Default,
    /// `-F path`: this file, which must exist; the system's file is not read.
    Named(PathBuf),
    /// `-F none`: no file at all.
    None,
    /// Only the system's file, for programs that the user must not configure.
    Skipped,
    /// The text of a file that was already read, and its name for messages; the system's file is not read.
    Text(PathBuf, String),
}

/// The inputs of [`load()`].
#[derive(Debug, Clone)]
pub struct Request {
    /// The destination as typed, without user and port.
    pub host: String,
    /// Flags and options in the order given; the user of `user@host` comes last, as `Flag("User", …)`.
    pub command_line: Vec<CommandLine>,
    /// The user's file.
    pub user_file: UserFile,
    /// The system's file; `/etc/ssh/ssh_config` outside of tests.
    pub system_file: Option<PathBuf>,
    /// The local user.
    pub account: Account,
    /// The remote command, for `Match command`.
    pub command: Option<String>,
    /// The program's own rate limit, bytes/s (`scp -l`), recorded by `Metrics`.
    pub rate_limit: Option<u64>,
}

impl Request {
    /// Returns a request for `host` with the usual files and an empty command line.
    pub fn new(host: impl Into<String>, account: Account) -> Self {
        Self {
            host: host.into(),
            command_line: Vec::new(),
            user_file: UserFile::Default,
            system_file: Some(PathBuf::from("/etc/ssh/ssh_config")),
            account,
            command: None,
            rate_limit: None,
        }
    }
}
