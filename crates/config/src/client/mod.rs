//! Reading the client's configuration for one destination.
//!
//! First value wins, in this order: command line, the user's file, the system's file. Keywords inside `Host` and `Match` blocks
//! that do not apply are still checked, and never take effect.

mod canonical;
mod config;
mod criteria;
mod load;

pub use config::{ClientConfig, IdentityFile, JumpHost, Note};
pub use load::load;

use std::path::PathBuf;

use crate::environment::Account;

/// One thing said on the command line, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// The text of an `-o`: `Keyword=value` or `Keyword value`, parsed as a line of a file.
    Option(String),
    /// A flag that stands for a keyword: its words are taken as they are, spaces and quotes included (`-i`, `-p`, `-l`).
    Flag(&'static str, Vec<String>),
}

/// Which file stands in for `~/.ssh/config`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum UserFile {
    /// `~/.ssh/config` if it exists; its owner and mode are checked. The system's file is read too.
    #[default]
    Default,
    /// `-F path`: this one, which must exist; no system file.
    Named(PathBuf),
    /// `-F none`: no file at all.
    None,
    /// The system's file alone, for programs that the user must not configure.
    Skipped,
    /// The text of a file that was read already, and its name for messages; no system file.
    Text(PathBuf, String),
}

/// What is known before any file is read.
#[derive(Debug, Clone)]
pub struct Request {
    /// The destination as typed, without user and port.
    pub host: String,
    /// Flags and options in the order they were given; the user of `user@host` comes last, as `Flag("User", …)`.
    pub command_line: Vec<CommandLine>,
    /// The user's file.
    pub user_file: UserFile,
    /// The system's file; `/etc/ssh/ssh_config` unless a test says otherwise.
    pub system_file: Option<PathBuf>,
    /// The local user.
    pub account: Account,
    /// The remote command, for `Match command`.
    pub command: Option<String>,
    /// The rate that the program itself keeps to, bytes/s (`scp -l`). It is only recorded, by `Metrics`.
    pub rate_limit: Option<u64>,
}

impl Request {
    /// A request for `host` with the usual files and an empty command line.
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
