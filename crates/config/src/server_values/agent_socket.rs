//! Location of forwarded agents' sockets.

use crate::line::Arguments;
use crate::table::Value;
use crate::value_error::{Syntax, ValueError};

/// `AgentSocketPath`. The directories are stored as written, with their tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentSocketPath {
    /// `user:DIRECTORY`: in this directory, which may be relative to the home directory.
    User(String),
    /// `shared:DIRECTORY`: in a new private directory below this one.
    Shared(String),
    /// `none`: agents are not forwarded.
    None,
}

impl Default for AgentSocketPath {
    fn default() -> Self {
        Self::User(".ssh/agent".to_owned())
    }
}

impl Value for AgentSocketPath {
    const KIND: &'static str = "user:directory, shared:directory or none";
    fn parse(args: &mut Arguments) -> Result<Self, ValueError> {
        let word = args.required()?;
        if word.eq_ignore_ascii_case("none") {
            return Ok(Self::None);
        }
        match word.split_once(':') {
            Some(("user", directory)) if !directory.is_empty() => Ok(Self::User(directory.to_owned())),
            Some(("user", _)) => Err(args.malformed(Syntax::UserDirectory, &word)),
            Some(("shared", directory)) if directory.starts_with('/') => {
                Ok(Self::Shared(directory.to_owned()))
            }
            Some(("shared", _)) => Err(args.malformed(Syntax::SharedDirectory, &word)),
            _ => Err(args.malformed(Syntax::SocketDirectory, &word)),
        }
    }
    fn dump(&self, name: &str, out: &mut Vec<String>) {
        out.push(match self {
            Self::User(directory) => format!("{name} user:{directory}"),
            Self::Shared(directory) => format!("{name} shared:{directory}"),
            Self::None => format!("{name} none"),
        });
    }
}
