//! systemd's journal, through its native protocol: one datagram with named fields per entry, so that log
//! readers need not parse lines (systemd's JOURNAL_NATIVE_PROTOCOL).

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::syslog::{Facility, Severity};

/// Socket of the journal.
pub const SOCKET: &str = "/run/systemd/journal/socket";

/// A connection to the journal.
#[derive(Debug)]
pub struct Journal {
    name: String,
    facility: Option<Facility>,
    socket: UnixDatagram,
}

impl Journal {
    /// Connects to the journal at `path`, which is [`SOCKET`] on a machine with systemd. `name` is the
    /// program's name.
    ///
    /// # Errors
    /// No journal listens there.
    pub fn open(path: &Path, name: &str) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_nonblocking(true)?;
        Ok(Self { name: name.to_owned(), facility: None, socket })
    }

    /// Returns this connection under another name, with a facility for every entry.
    ///
    /// # Errors
    /// The process has no free descriptor.
    pub fn with(&self, facility: Option<Facility>, name: &str) -> io::Result<Self> {
        let facility = facility.or(self.facility);
        Ok(Self { name: name.to_owned(), facility, socket: self.socket.try_clone()? })
    }

    /// Writes one entry: its line and additional fields. Field names consist of capital letters, digits and
    /// underscores and do not begin with an underscore; values are arbitrary.
    ///
    /// # Errors
    /// The journal's socket does not exist, or the journal does not read from it.
    pub fn write<N: AsRef<str>, V: AsRef<str>>(
        &self,
        severity: Severity,
        line: &str,
        fields: &[(N, V)],
    ) -> io::Result<()> {
        let mut entry = Vec::with_capacity(1024);
        put_field(&mut entry, "MESSAGE", line);
        put_field(&mut entry, "PRIORITY", &(severity as u8).to_string());
        put_field(&mut entry, "SYSLOG_IDENTIFIER", &self.name);
        if let Some(facility) = self.facility {
            put_field(&mut entry, "SYSLOG_FACILITY", &facility.number().to_string());
            put_field(&mut entry, "SYSLOG_PID", &std::process::id().to_string());
        }
        for (name, value) in fields {
            put_field(&mut entry, name.as_ref(), value.as_ref());
        }
        self.socket.send(&entry).map(drop)
    }
}

/// Encodes a field as `NAME=value` where the value is one line; otherwise as the name, then the value with
/// its length in front.
fn put_field(entry: &mut Vec<u8>, name: &str, value: &str) {
    entry.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_keeps_its_fields() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        assert!(Journal::open(&path, "lhsshd").is_err());
        let listener = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::open(&path, "lhsshd").unwrap();
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let fields = [field("LH_USER", "ada"), field("LH_PATH", "a\nPRIORITY=0")];
        journal.write(Severity::Info, "a line", &fields).unwrap();
        let mut got = [0; 1000];
        let n = listener.recv(&mut got).unwrap();
        let mut expected =
            b"MESSAGE=a line\nPRIORITY=6\nSYSLOG_IDENTIFIER=lhsshd\nLH_USER=ada\nLH_PATH\n".to_vec();
        expected.extend_from_slice(&12_u64.to_le_bytes());
        expected.extend_from_slice(b"a\nPRIORITY=0\n");
        assert_eq!(String::from_utf8_lossy(&got[..n]), String::from_utf8_lossy(&expected));
        let named = journal.with(Some(Facility::AUTH), "sftp").unwrap();
        named.write(Severity::Error, "two", &[("USER", "ada")]).unwrap();
        let n = listener.recv(&mut got).unwrap();
        let expected = format!(
            "MESSAGE=two\nPRIORITY=3\nSYSLOG_IDENTIFIER=sftp\nSYSLOG_FACILITY=4\nSYSLOG_PID={}\nUSER=ada\n",
            std::process::id()
        );
        assert_eq!(String::from_utf8_lossy(&got[..n]), expected);
    }
}
