//! The system's log, through its socket.

use std::os::unix::net::UnixDatagram;

/// Socket of the log.
const SOCKET: &str = "/dev/log";

/// Facility: the part of the system that logs (RFC 5424 section 6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facility(u8);

impl Facility {
    /// Facility for logins; the default of OpenSSH's programs.
    pub const AUTH: Self = Self(4);

    /// The facility's number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Parses a `SyslogFacility` value, ignoring case.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(Self(match name.to_ascii_uppercase().as_str() {
            "USER" => 1,
            "DAEMON" => 3,
            "AUTH" => 4,
            "AUTHPRIV" => 10,
            local => match local.strip_prefix("LOCAL").and_then(|number| number.parse::<u8>().ok()) {
                Some(number @ 0..=7) => 16 + number,
                _ => return None,
            },
        }))
    }
}

/// Severity of a line (RFC 5424 section 6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// A program is about to end.
    Critical = 2,
    /// An error.
    Error = 3,
    /// Information for the record.
    Info = 6,
    /// Details for debugging.
    Debug = 7,
}

/// A connection to the log. Where there is no log, or it is busy, lines are lost: writers never wait.
#[derive(Debug)]
pub struct Syslog {
    facility: Facility,
    name: String,
    socket: Option<UnixDatagram>,
}

impl Syslog {
    /// Connects at once, so that lines can be written from inside a chroot. `name` is the program's name.
    pub fn open(facility: Facility, name: &str) -> Self {
        let socket = UnixDatagram::unbound().and_then(|socket| {
            socket.connect(SOCKET)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        Self { facility, name: name.to_owned(), socket: socket.ok() }
    }

    /// Returns this connection under another facility and name.
    pub fn with(&self, facility: Option<Facility>, name: &str) -> Self {
        let socket = self.socket.as_ref().and_then(|socket| socket.try_clone().ok());
        Self { facility: facility.unwrap_or(self.facility), name: name.to_owned(), socket }
    }

    /// Writes one line, which must not contain control characters.
    pub fn line(&self, severity: Severity, text: &str) {
        if let Some(socket) = &self.socket {
            let priority = self.facility.0 * 8 + severity as u8;
            let line = format!("<{priority}>{}[{}]: {text}", self.name, std::process::id());
            let _ = socket.send(line.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facilities_have_their_syslog_numbers() {
        assert_eq!(Facility::by_name("auth"), Some(Facility::AUTH));
        assert_eq!(Facility::by_name("LOCAL7"), Some(Facility(23)));
        assert_eq!(Facility::by_name("LOCAL8"), None);
        assert_eq!(Facility::by_name("kern"), None);
    }
}
