//! The facts about a connection that the server's `Match` criteria test.

use std::net::IpAddr;

/// The known facts when `Match` blocks are applied. A fact that is `None` fails every criterion about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectionFacts {
    /// The requested user name.
    pub user: Option<String>,
    /// True if the user does not exist.
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

impl ConnectionFacts {
    /// Adds the facts of a `-C` option: `user=`, `host=`, `addr=`, `laddr=`, `lport=`, `rdomain=`,
    /// `invalid-user`, separated by commas.
    ///
    /// # Errors
    /// The error message to print.
    pub fn parse_spec(&mut self, spec: &str) -> Result<(), String> {
        for part in spec.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key {
                "addr" => {
                    self.address =
                        Some(value.parse().map_err(|_| format!("Invalid test mode specification {part}"))?)
                }
                "user" => self.user = Some(value.to_string()),
                "host" => self.host = Some(value.to_string()),
                "laddr" => {
                    self.local_address =
                        Some(value.parse().map_err(|_| format!("Invalid test mode specification {part}"))?);
                }
                "lport" => {
                    let port = value.parse().ok().filter(|port| *port != 0);
                    self.local_port = Some(port.ok_or_else(|| {
                        format!("Invalid port '{value}' in test mode specification {part}")
                    })?);
                }
                "rdomain" => self.rdomain = Some(value.to_string()),
                "invalid-user" => self.invalid_user = true,
                _ => return Err(format!("Invalid test mode specification {part}")),
            }
        }
        Ok(())
    }
}
