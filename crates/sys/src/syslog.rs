//! The system's log, over its socket.

use std::os::unix::net::UnixDatagram;

/// Where the log listens.
const SOCKET: &str = "/dev/log";

/// Which part of the system speaks (RFC 5424 section 6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facility(u8);

impl Facility {
    /// What concerns logins; the default of OpenSSH's programs.
    pub const AUTH: Self = Self(4);

    /// The facility of a word of `SyslogFacility`, in any case.
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

/// How bad it is (RFC 5424 section 6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Something is about to end.
    Critical = 2,
    /// Something went wrong.
    Error = 3,
    /// For the record.
    Info = 6,
    /// For finding faults.
    Debug = 7,
}

/// A connection to the log. Where there is no log, or it is busy, lines are lost: nothing waits for it.
#[derive(Debug)]
pub struct Syslog {
    facility: Facility,
    name: String,
    socket: Option<UnixDatagram>,
}

impl Syslog {
    /// Connects at once, so that lines can be written from inside of a chroot. `name` is the program's.
    pub fn open(facility: Facility, name: &str) -> Self {
        let socket = UnixDatagram::unbound().and_then(|socket| {
            socket.connect(SOCKET)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        Self { facility, name: name.to_owned(), socket: socket.ok() }
    }

    /// The same connection under another facility and name.
    pub fn with(&self, facility: Option<Facility>, name: &str) -> Self {
        let socket = self.socket.as_ref().and_then(|socket| socket.try_clone().ok());
        Self { facility: facility.unwrap_or(self.facility), name: name.to_owned(), socket }
    }

    /// Writes one line. It must hold no control characters.
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
    fn facilities_have_the_numbers_of_syslog() {
        assert_eq!(Facility::by_name("auth"), Some(Facility::AUTH));
        assert_eq!(Facility::by_name("LOCAL7"), Some(Facility(23)));
        assert_eq!(Facility::by_name("LOCAL8"), None);
        assert_eq!(Facility::by_name("kern"), None);
    }
}
