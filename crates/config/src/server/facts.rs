//! The facts about a connection that the server's `Match` criteria test.

use std::fmt;
use std::net::IpAddr;

/// The facts about a connection when `Match` blocks are applied. A criterion about a fact that is `None` does
/// not match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectionFacts {
    /// The requested user name.
    pub user: Option<String>,
    /// `invalid-user`: whether the account is unknown.
    pub invalid_user: bool,
    /// The user's groups by name, the primary one included.
    pub groups: Vec<String>,
    /// The client's host name (its address without `UseDNS`).
    pub host: Option<String>,
    /// The client's address.
    pub address: Option<IpAddr>,
    /// The server address of the connection.
    pub local_address: Option<IpAddr>,
    /// The server port of the connection.
    pub local_port: Option<u16>,
    /// The routing domain.
    pub rdomain: Option<String>,
}

/// Error: a part of a `-C` option is not a fact about a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadFact {
    /// The name is unknown, or the address is invalid.
    Part(String),
    /// The value of `lport=` is not a port.
    Port {
        /// The invalid text.
        port: String,
        /// The complete part.
        part: String,
    },
}

impl fmt::Display for BadFact {
    /// Writes the message in OpenSSH's words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => write!(f, "Invalid test mode specification {part}"),
            Self::Port { port, part } => write!(f, "Invalid port '{port}' in test mode specification {part}"),
        }
    }
}

impl std::error::Error for BadFact {}

impl ConnectionFacts {
    /// Adds the facts of a `-C` option: `user=`, `host=`, `addr=`, `laddr=`, `lport=`, `rdomain=`,
    /// `invalid-user`, separated by commas.
    ///
    /// # Errors
    /// [`BadFact`], whose text is the message to print.
    pub fn parse_spec(&mut self, spec: &str) -> Result<(), BadFact> {
        for part in spec.split(',').filter(|part| !part.is_empty()) {
            let invalid = || BadFact::Part(part.to_owned());
            if part == "invalid-user" {
                self.invalid_user = true;
                continue;
            }
            let (key, value) = part.split_once('=').ok_or_else(invalid)?;
            match key {
                "addr" => self.address = Some(value.parse().map_err(|_| invalid())?),
                "user" => self.user = Some(value.to_string()),
                "host" => self.host = Some(value.to_string()),
                "laddr" => self.local_address = Some(value.parse().map_err(|_| invalid())?),
                "lport" => {
                    let port = value.parse().ok().filter(|port| *port != 0);
                    self.local_port =
                        Some(port.ok_or_else(|| BadFact::Port {
                            port: value.to_owned(),
                            part: part.to_owned(),
                        })?);
                }
                "rdomain" => self.rdomain = Some(value.to_string()),
                _ => return Err(invalid()),
            }
        }
        Ok(())
    }
}
