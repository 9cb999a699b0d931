//! Standard error of the remote side.

use std::io::{IsTerminal, Write};

use lh_wire::PrintableStream;

/// Writes it to ours: as it is into files and pipes, and made harmless on a terminal, as names are.
#[derive(Debug)]
pub struct RemoteStderr {
    /// `None` where standard error is no terminal.
    filter: Option<PrintableStream>,
}

impl Default for RemoteStderr {
    fn default() -> Self {
        Self { filter: std::io::stderr().is_terminal().then(PrintableStream::default) }
    }
}

impl RemoteStderr {
    /// Writes a piece. Errors are dropped: a terminal that has gone away does not end a copy.
    pub fn write(&mut self, piece: &[u8]) {
        self.write_to(&mut std::io::stderr().lock(), piece);
    }

    fn write_to(&mut self, out: &mut dyn Write, piece: &[u8]) {
        let _ = match &mut self.filter {
            None => out.write_all(piece),
            Some(filter) => out.write_all(filter.push(piece).as_bytes()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_text_drives_no_terminal_and_is_kept_elsewhere() {
        for (filter, expected) in [
            (Some(PrintableStream::default()), &b"motd\\033[2J\n\xc3\xbc\n"[..]),
            (None, b"motd\x1b[2J\r\n\xc3\xbc\n"),
        ] {
            let mut stderr = RemoteStderr { filter };
            let mut out = Vec::new();
            for piece in [&b"motd\x1b[2J\r\n\xc3"[..], b"\xbc\n"] {
                stderr.write_to(&mut out, piece);
            }
            assert_eq!(out, expected);
        }
    }
}
