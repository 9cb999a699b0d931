//! Usage reports of the user session process to the monitor, for the log of transfers and the counters.
//!
//! The user controls these reports. The monitor adds what it knows itself (user, address, duration), bounds
//! every field, and writes the log.

use lh_wire::{Reader, WireError, Writer};

use crate::monitor_ipc::fields::{put_option, read_option, text};

/// Longest path, bytes: the kernel's limit.
const LONGEST_PATH: usize = 4096;
/// Longest other text, bytes: algorithm names, identifications, reasons.
const LONGEST_TEXT: usize = 256;

/// Statistics of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConnectionUsage {
    /// The client's identification line.
    pub(crate) client: String,
    pub(crate) kex: String,
    /// Algorithm from client to server and back, with a slash between them where they differ.
    pub(crate) cipher: String,
    pub(crate) mac: String,
    pub(crate) compression: String,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Highest throughput, bytes/s.
    pub(crate) peak_in: u64,
    pub(crate) peak_out: u64,
    pub(crate) rekeys: u64,
    /// How the connection ended; empty while it has not.
    pub(crate) end: String,
}

/// Kind of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A file transferred over SFTP.
    Sftp,
    /// A file transferred in scp's old protocol.
    Scp,
    /// The input and output of a command or shell.
    Command,
}

/// How a transfer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Success: the file was closed without an earlier error, or the command ended with status 0.
    Complete,
    /// Failure, with the reason.
    Failed(String),
    /// The session ended first.
    Abandoned,
    /// `UploadHook` rejected the file.
    Rejected,
}

/// The transfer of one file, or the data of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) kind: Kind,
    /// Path of the file, or the command.
    pub(crate) path: Vec<u8>,
    /// True for files sent to the server; only meaningful for files.
    pub(crate) upload: bool,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Offset in the file where the transfer began, bytes.
    pub(crate) start: u64,
    pub(crate) micros: u64,
    pub(crate) outcome: Outcome,
}

/// An SFTP request that changed something, or was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileOperation {
    /// Name of the request, as `-Q requests` of the SFTP server prints it.
    pub(crate) request: String,
    pub(crate) path: Vec<u8>,
    /// The new name, or the target of a symbolic link.
    pub(crate) other: Option<Vec<u8>>,
    /// The attributes to set, as names and values.
    pub(crate) attributes: String,
    pub(crate) outcome: Outcome,
}

fn bounded(reader: &mut Reader<'_>) -> Result<String, WireError> {
    Ok(text(reader)?.chars().take(LONGEST_TEXT).collect())
}

impl ConnectionUsage {
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        let Self { client, kex, cipher, mac, compression, .. } = self;
        for text in [client, kex, cipher, mac, compression, &self.end] {
            out.put_string(text.as_bytes());
        }
        for number in [self.bytes_in, self.bytes_out, self.peak_in, self.peak_out, self.rekeys] {
            out.put_u64(number);
        }
    }

    pub(crate) fn read_from(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            client: bounded(reader)?,
            kex: bounded(reader)?,
            cipher: bounded(reader)?,
            mac: bounded(reader)?,
            compression: bounded(reader)?,
            end: bounded(reader)?,
            bytes_in: reader.u64()?,
            bytes_out: reader.u64()?,
            peak_in: reader.u64()?,
            peak_out: reader.u64()?,
            rekeys: reader.u64()?,
        })
    }
}

fn bounded_path(path: &[u8]) -> &[u8] {
    path.get(..LONGEST_PATH).unwrap_or(path)
}

impl Outcome {
    fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Complete => out.put_u8(0),
            Self::Failed(why) => {
                out.put_u8(1);
                out.put_string(why.as_bytes());
            }
            Self::Abandoned => out.put_u8(2),
            Self::Rejected => out.put_u8(3),
        }
    }

    fn read_from(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match reader.u8()? {
            0 => Ok(Self::Complete),
            1 => Ok(Self::Failed(bounded(reader)?)),
            2 => Ok(Self::Abandoned),
            3 => Ok(Self::Rejected),
            _ => Err(WireError::Invalid { what: "outcome" }),
        }
    }
}

impl FileOperation {
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        out.put_string(self.request.as_bytes());
        out.put_string(bounded_path(&self.path));
        put_option(out, self.other.as_deref().map(bounded_path));
        out.put_string(self.attributes.as_bytes());
        self.outcome.write_to(out);
    }

    pub(crate) fn read_from(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            request: bounded(reader)?,
            path: bounded_path(reader.string()?).to_vec(),
            other: read_option(reader)?.map(|path| bounded_path(path).to_vec()),
            attributes: bounded(reader)?,
            outcome: Outcome::read_from(reader)?,
        })
    }
}

impl Transfer {
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        out.put_u8(match self.kind {
            Kind::Command => 0,
            Kind::Sftp => 1,
            Kind::Scp => 2,
        });
        out.put_string(bounded_path(&self.path));
        out.put_bool(self.upload);
        for number in [self.bytes_in, self.bytes_out, self.start, self.micros] {
            out.put_u64(number);
        }
        self.outcome.write_to(out);
    }

    pub(crate) fn read_from(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let kind = match reader.u8()? {
            1 => Kind::Sftp,
            2 => Kind::Scp,
            _ => Kind::Command,
        };
        Ok(Self {
            kind,
            path: bounded_path(reader.string()?).to_vec(),
            upload: reader.boolean()?,
            bytes_in: reader.u64()?,
            bytes_out: reader.u64()?,
            start: reader.u64()?,
            micros: reader.u64()?,
            outcome: Outcome::read_from(reader)?,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn usage() -> ConnectionUsage {
        ConnectionUsage {
            client: "SSH-2.0-Test_1".into(),
            kex: "curve25519-sha256".into(),
            cipher: "aes128-gcm@openssh.com".into(),
            mac: "<implicit>".into(),
            compression: "none".into(),
            bytes_in: 1,
            bytes_out: 2_000_000,
            peak_in: 3,
            peak_out: 4,
            rekeys: 5,
            end: "closed".into(),
        }
    }

    pub(crate) fn transfer(path: &[u8], outcome: Outcome) -> Transfer {
        let path = path.to_vec();
        Transfer {
            kind: Kind::Sftp,
            path,
            upload: true,
            bytes_in: 1000,
            bytes_out: 0,
            start: 10,
            micros: 500_000,
            outcome,
        }
    }

    pub(crate) fn operation(path: &[u8], outcome: Outcome) -> FileOperation {
        FileOperation {
            request: "rename".into(),
            path: path.to_vec(),
            other: Some(path.to_vec()),
            attributes: "mode=0644".into(),
            outcome,
        }
    }

    #[test]
    fn operations_arrive_within_bounds() {
        let read = |operation: &FileOperation| {
            let mut bytes = Vec::new();
            operation.write_to(&mut bytes);
            FileOperation::read_from(&mut Reader::new(&bytes)).unwrap()
        };
        let one = operation(b"/a\xff", Outcome::Failed("no".into()));
        assert_eq!(read(&one), one);
        let alone = FileOperation { other: None, ..operation(b"/a", Outcome::Complete) };
        assert_eq!(read(&alone), alone);
        let long = FileOperation {
            attributes: "z".repeat(9999),
            ..operation(&[b'x'; 9999], Outcome::Failed("y".repeat(9999)))
        };
        let read = read(&long);
        assert_eq!((read.path.len(), read.other.map(|path| path.len())), (LONGEST_PATH, Some(LONGEST_PATH)));
        assert_eq!(read.attributes.len(), LONGEST_TEXT);
        assert_eq!(read.outcome, Outcome::Failed("y".repeat(LONGEST_TEXT)));
    }

    #[test]
    fn usage_round_trips_within_bounds() {
        let mut bytes = Vec::new();
        usage().write_to(&mut bytes);
        assert_eq!(ConnectionUsage::read_from(&mut Reader::new(&bytes)).unwrap(), usage());
        for outcome in
            [Outcome::Complete, Outcome::Abandoned, Outcome::Rejected, Outcome::Failed("no space".into())]
        {
            let mut bytes = Vec::new();
            transfer(b"/a\xff", outcome.clone()).write_to(&mut bytes);
            let read = Transfer::read_from(&mut Reader::new(&bytes)).unwrap();
            assert_eq!(read, transfer(b"/a\xff", outcome));
        }
        let mut bytes = Vec::new();
        transfer(&[b'x'; 9999], Outcome::Failed("y".repeat(9999))).write_to(&mut bytes);
        let read = Transfer::read_from(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(read.path.len(), LONGEST_PATH);
        assert_eq!(read.outcome, Outcome::Failed("y".repeat(LONGEST_TEXT)));
    }
}
