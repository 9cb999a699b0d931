//! `-y`: messages to syslog (RFC 3164, over the local socket).

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::ui::LogLevel;

/// Socket of the syslog daemon.
const SOCKET: &str = "/dev/log";

/// A connection to syslog. Without a daemon, lines are dropped, as in syslog(3).
#[derive(Debug)]
pub struct Syslog {
    ident: String,
    facility: u8,
    socket: Option<UnixDatagram>,
}

impl Syslog {
    /// Connects to the system's log, under the name `ident`; `facility` is a value of `SyslogFacility`.
    pub fn open(ident: &str, facility: &str) -> Self {
        Self::open_at(Path::new(SOCKET), ident, facility)
    }

    fn open_at(path: &Path, ident: &str, facility: &str) -> Self {
        let socket = UnixDatagram::unbound().and_then(|socket| {
            socket.connect(path)?;
            // A full log must not block a session.
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        Self { ident: ident.to_owned(), facility: number(facility), socket: socket.ok() }
    }

    pub(crate) fn line(&self, level: LogLevel, text: &str) {
        let Some(socket) = &self.socket else { return };
        let priority = self.facility * 8 + severity(level);
        let pid = std::process::id();
        let text: String = text.chars().map(|c| if lh_wire::is_hidden(c) { '?' } else { c }).collect();
        let _ = socket.send(format!("<{priority}>{}[{pid}]: {text}", self.ident).as_bytes());
    }
}

/// Returns the number of a facility (RFC 3164 section 4.1.1).
fn number(facility: &str) -> u8 {
    match facility.to_ascii_uppercase().as_str() {
        "DAEMON" => 3,
        "AUTH" => 4,
        "AUTHPRIV" => 10,
        word => match word.strip_prefix("LOCAL").and_then(|n| n.parse::<u8>().ok()) {
            Some(n @ 0..=7) => 16 + n,
            _ => 1,
        },
    }
}

const fn severity(level: LogLevel) -> u8 {
    match level {
        LogLevel::Quiet | LogLevel::Fatal => 2,
        LogLevel::Error => 3,
        LogLevel::Info | LogLevel::Verbose => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: ssh_config SyslogFacility
    #[test]
    fn syslog_lines_have_facility_severity_and_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let server = UnixDatagram::bind(&path).expect("bound");
        let log = Syslog::open_at(&path, "ssh", "local3");
        log.line(LogLevel::Error, "bad\nthing");
        let mut buffer = [0; 100];
        let length = server.recv(&mut buffer).expect("a line");
        let expected = format!("<{}>ssh[{}]: bad?thing", 19 * 8 + 3, std::process::id());
        assert_eq!(std::str::from_utf8(&buffer[..length]), Ok(expected.as_str()));
        Syslog::open_at(&directory.path().join("none"), "ssh", "USER").line(LogLevel::Info, "dropped");
        assert_eq!((number("USER"), number("auth"), number("AUTHPRIV"), number("LOCAL9")), (1, 4, 10, 1));
    }
}
