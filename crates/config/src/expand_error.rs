//! Why tokens, variables or `~user` in a text cannot be expanded.

use std::fmt;

use crate::names::{BAD_HOST, BAD_USER};

/// An error in expanding tokens, variables or `~user` in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpandError {
    /// `${}` names no variable.
    NamelessVariable,
    /// `${NAME` lacks its closing brace.
    UnclosedVariable,
    /// A `%` ends the text.
    UnfinishedToken,
    /// The token `%x` is unknown, or has no value for this keyword.
    UnknownToken(char),
    /// The user in `~user` does not exist.
    UnknownUser(String),
    /// The host name of `%h` or `%n` in a command contains shell syntax.
    UnsafeHost,
    /// The user name of `%r` in a command contains shell syntax.
    UnsafeUser,
    /// The variable in `${NAME}` is not set.
    UnsetVariable(String),
}

impl fmt::Display for ExpandError {
    /// Writes the error in OpenSSH's words.
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
