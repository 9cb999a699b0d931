//! Why tokens, variables or `~user` in a text cannot be expanded.

use std::fmt;

use crate::names::{BAD_HOST, BAD_USER};

/// A text whose tokens, variables or `~user` cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpandError {
    /// `${}`.
    NamelessVariable,
    /// `${NAME` without its brace.
    UnclosedVariable,
    /// A `%` at the end.
    UnfinishedToken,
    /// `%x` for a letter without a value here.
    UnknownToken(char),
    /// `~user` for a user that does not exist.
    UnknownUser(String),
    /// `%h` or `%n` in a command is a host name with shell syntax.
    UnsafeHost,
    /// `%r` in a command is a user name with shell syntax.
    UnsafeUser,
    /// `${NAME}` for a variable that is not set.
    UnsetVariable(String),
}

impl fmt::Display for ExpandError {
    /// The error in OpenSSH's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NamelessVariable => f.write_str("zero-length environment variable"),
            Self::UnclosedVariable => f.write_str("environment variable missing closing '}'"),
            Self::UnfinishedToken => f.write_str("invalid format"),
            Self::UnknownToken(key) => write!(f, "unknown key %{key}"),
            Self::UnknownUser(user) => write!(f, "tilde_expand: No such user {user}"),
            Self::UnsafeHost => f.write_str(BAD_HOST),
            Self::UnsafeUser => f.write_str(BAD_USER),
            Self::UnsetVariable(name) => write!(f, "env var ${{{name}}} has no value"),
        }
    }
}

impl std::error::Error for ExpandError {}
