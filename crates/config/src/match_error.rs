//! Errors in `Match` lines.

use std::fmt;

use crate::environment::CommandFailure;
use crate::expand_error::ExpandError;

/// Why the criteria of a `Match` line are invalid. `Display` gives OpenSSH's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MatchError {
    /// `all` has an argument, or is not the only attribute.
    AllNotAlone,
    /// Versions of OpenSSH read the quotes or backslashes in different ways.
    Ambiguous,
    /// The list of `address` or `localaddress` is malformed. sshd prints this message alone, followed by the
    /// line number.
    BadAddressList { attribute: String, list: String },
    /// The list of `localnetwork` is malformed.
    BadLocalNetwork(String),
    /// The value of `localport` is not a port.
    BadLocalPort(String),
    /// A quote is left open.
    BadQuotes,
    /// The command of `exec` has no status.
    Command(CommandFailure),
    /// This attribute has no argument.
    MissingArgument(String),
    /// The line has no attribute.
    NoAttributes,
    /// The command of `exec` contains a token that cannot be expanded.
    Unexpandable(ExpandError),
    /// The attribute is unknown.
    UnsupportedAttribute(String),
}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllNotAlone => f.write_str("'all' cannot be combined with other Match attributes"),
            Self::Ambiguous => f.write_str(
                "Match arguments with quotes or backslashes that versions of OpenSSH read differently; put \" around \
                 whole arguments only",
            ),
            Self::BadAddressList { attribute, list } => {
                write!(f, "Invalid Match {attribute} argument '{list}' at line")
            }
            Self::BadLocalNetwork(list) => write!(f, "Invalid localnetwork list {list}"),
            Self::BadLocalPort(port) => write!(f, "Invalid LocalPort '{port}' on Match line"),
            Self::BadQuotes => f.write_str("invalid quotes"),
            Self::Command(why) => why.fmt(f),
            Self::MissingArgument(attribute) => write!(f, "Missing Match criteria for {attribute}"),
            Self::NoAttributes => f.write_str("One or more attributes required for Match"),
            Self::Unexpandable(why) => why.fmt(f),
            Self::UnsupportedAttribute(attribute) => write!(f, "Unsupported Match attribute {attribute}"),
        }
    }
}
