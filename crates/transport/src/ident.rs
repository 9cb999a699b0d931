//! The identification exchange (RFC 4253 section 4.2).

use crate::{Role, TransportError};

/// Longest line, line ending included: OpenSSH's limit. RFC 4253 says 255 for the identification itself, but
/// longer ones are met.
pub(crate) const MAX_LINE: usize = 8192;

/// Most lines a server may send before its identification: OpenSSH's limit.
pub(crate) const MAX_LINES: usize = 1024;

/// Our line, without line ending.
pub(crate) fn ours(software: &str, comments: &str) -> String {
    // A hyphen would end the software version for peers that split there; HPN-SSH met some.
    let clean = |c: char| if c.is_ascii_graphic() && c != '-' { c } else { '_' };
    let software: String = software.chars().map(clean).take(200).collect();
    let printable = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '_' };
    // RFC 4253: 255 characters with everything; OpenSSH's clients take more, others need not.
    let comments: String = comments.trim().chars().map(printable).take(240 - software.len()).collect();
    let space = if comments.is_empty() { "" } else { " " };
    format!("SSH-2.0-{software}{space}{comments}")
}

/// What was found at the front of the received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No complete line yet.
    Nothing,
    /// A line before the identification: its length with line ending, and its text.
    Banner(usize, Vec<u8>),
    /// The identification: its length with line ending, and its text as it enters the exchange hash.
    Identification(usize, Vec<u8>),
}

/// Looks for the next line. `lines` says how many came before.
pub(crate) fn next(role: Role, lines: usize, bytes: &[u8]) -> Result<Found, TransportError> {
    let window = bytes.get(..bytes.len().min(MAX_LINE)).unwrap_or_default();
    // Only servers may send anything before the identification, so a server knows at the first byte.
    if role == Role::Server && !window.iter().zip(b"SSH-").all(|(got, want)| got == want) {
        return Err(TransportError::NotSsh(format!("\"{}\"", printable(first_line(window)))));
    }
    let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
        if window.len() == MAX_LINE {
            return Err(TransportError::NotSsh("line too long".to_owned()));
        }
        return Ok(Found::Nothing);
    };
    let line = window.get(..end).unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.contains(&0) {
        return Err(TransportError::NotSsh("line contains a null byte".to_owned()));
    }
    if !line.starts_with(b"SSH-") {
        if lines >= MAX_LINES {
            return Err(TransportError::NotSsh("no SSH identification string received".to_owned()));
        }
        return Ok(Found::Banner(end + 1, line.to_vec()));
    }
    let rest = line.get(4..).unwrap_or_default();
    let Some(dash) = rest.iter().position(|&byte| byte == b'-') else {
        return Err(TransportError::NotSsh(format!("bad identification \"{}\"", printable(line))));
    };
    match rest.get(..dash).unwrap_or_default() {
        // 1.99 is a 2.0 that also speaks 1 (RFC 4253 section 5.1).
        b"2.0" | b"1.99" => Ok(Found::Identification(end + 1, line.to_vec())),
        version => Err(TransportError::ProtocolVersion(printable(version))),
    }
}

fn first_line(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    bytes.get(..end.min(64)).unwrap_or_default()
}

/// Bytes as text for a log: what is not printable ASCII is escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn software_has_no_hyphen() {
        assert_eq!(ours("Long-haul 0.1\n", ""), "SSH-2.0-Long_haul_0.1_");
        assert_eq!(ours("Longhaul_0.1", " Debian-3\r\nx "), "SSH-2.0-Longhaul_0.1 Debian-3__x");
    }

    #[test]
    fn plain_identification() {
        let found = next(Role::Server, 0, b"SSH-2.0-OpenSSH_9.2 Debian\r\n\0\0");
        assert_eq!(found, Ok(Found::Identification(28, b"SSH-2.0-OpenSSH_9.2 Debian".to_vec())));
        let found = next(Role::Client, 0, b"SSH-1.99-old\n");
        assert_eq!(found, Ok(Found::Identification(13, b"SSH-1.99-old".to_vec())));
    }

    #[test]
    fn partial_lines_wait() {
        for line in [&b""[..], b"S", b"SSH-2.0-x", b"SSH-2.0-x\r"] {
            assert_eq!(next(Role::Server, 0, line), Ok(Found::Nothing));
        }
    }

    #[test]
    fn lines_before_are_for_servers_only() {
        assert_eq!(next(Role::Client, 0, b"hello\r\n"), Ok(Found::Banner(7, b"hello".to_vec())));
        assert!(matches!(next(Role::Client, MAX_LINES, b"hello\r\n"), Err(TransportError::NotSsh(_))));
        assert_eq!(
            next(Role::Server, 0, b"GET / HTTP/1.1\r\n"),
            Err(TransportError::NotSsh("\"GET / HTTP/1.1\"".to_owned()))
        );
    }

    #[test]
    fn other_versions_and_noise() {
        assert_eq!(
            next(Role::Client, 0, b"SSH-1.5-x\n"),
            Err(TransportError::ProtocolVersion("1.5".to_owned()))
        );
        assert!(matches!(next(Role::Client, 0, b"SSH-2.0\n"), Err(TransportError::NotSsh(_))));
        assert!(matches!(next(Role::Client, 0, b"SSH-2.0-a\0b\n"), Err(TransportError::NotSsh(_))));
        assert!(matches!(next(Role::Client, 0, &[b'x'; MAX_LINE]), Err(TransportError::NotSsh(_))));
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), server: bool, lines in 0usize..1030) {
            let role = if server { Role::Server } else { Role::Client };
            if let Ok(Found::Banner(n, _) | Found::Identification(n, _)) = next(role, lines, &bytes) {
                prop_assert!(n <= bytes.len() && bytes[n - 1] == b'\n');
            }
        }
    }
}
