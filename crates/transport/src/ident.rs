//! The identification exchange (RFC 4253 section 4.2).

use crate::{Role, TransportError};

/// Longest line including its ending, bytes: OpenSSH's limit. RFC 4253 allows 255 for the identification, but
/// longer ones exist.
pub(crate) const MAX_LINE: usize = 8192;

/// Limit of lines that a server may send before its identification: OpenSSH's.
pub(crate) const MAX_LINES: usize = 1024;

/// Returns our identification, without line ending.
pub(crate) fn ours(software: &str, comments: &str) -> String {
    // Some peers split at a hyphen and would cut the software version there (HPN-SSH met such peers).
    let clean = |c: char| if c.is_ascii_graphic() && c != '-' { c } else { '_' };
    let software: String = software.chars().map(clean).take(200).collect();
    let printable = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '_' };
    // RFC 4253 allows 255 characters in total. OpenSSH's clients accept more, others might not.
    let comments: String = comments.trim().chars().map(printable).take(240 - software.len()).collect();
    let space = if comments.is_empty() { "" } else { " " };
    format!("SSH-2.0-{software}{space}{comments}")
}

/// Result of scanning the first received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No complete line has arrived.
    Nothing,
    /// A line before the identification: its length including the line ending, and its text.
    Banner(usize, Vec<u8>),
    /// The identification: its length including the line ending, and its text as hashed into the exchange
    /// hash.
    Identification(usize, Vec<u8>),
}

/// Scans for the next line. `lines` is the number of lines before it.
pub(crate) fn next(role: Role, lines: usize, bytes: &[u8]) -> Result<Found, TransportError> {
    let window = bytes.get(..bytes.len().min(MAX_LINE)).unwrap_or_default();
    // Only servers may send lines before the identification, so a server can decide at the first byte.
    if role == Role::Server && !window.iter().zip(b"SSH-").all(|(got, want)| got == want) {
        return Err(TransportError::NotSsh(format!("\"{}\"", printable(first_line(window)))));
    }
    let end = window.iter().position(|&byte| byte == b'\n');
    let text = window.get(..end.unwrap_or(window.len())).unwrap_or_default();
    let line = text.strip_suffix(b"\r").unwrap_or(text);
    if line.iter().any(|byte| matches!(byte, 0 | b'\r')) {
        return Err(TransportError::NotSsh("banner line contains invalid characters".to_owned()));
    }
    let Some(end) = end else {
        if window.len() == MAX_LINE {
            return Err(TransportError::NotSsh("banner line too long".to_owned()));
        }
        return Ok(Found::Nothing);
    };
    if !line.starts_with(b"SSH-") || line == b"SSH-" {
        if lines >= MAX_LINES {
            let text = format!("No SSH version received in first {MAX_LINES} lines from server");
            return Err(TransportError::NotSsh(text));
        }
        return Ok(Found::Banner(end + 1, line.to_vec()));
    }
    let Some((major, minor)) = version(line) else {
        return Err(TransportError::BadIdentification(printable(line.get(..100).unwrap_or(line))));
    };
    // 1.99 is a 2.0 that also supports SSH-1 (RFC 4253 section 5.1).
    if major == "2" || (major, minor) == ("1", "99") {
        Ok(Found::Identification(end + 1, line.to_vec()))
    } else {
        Err(TransportError::ProtocolVersion(major.to_owned()))
    }
}

/// The major and minor version in `SSH-MAJOR.MINOR-SOFTWARE`. `None` for lines of another form.
fn version(line: &[u8]) -> Option<(&str, &str)> {
    let text = line.strip_prefix(b"SSH-")?;
    let dash = text.iter().position(|&byte| byte == b'-')?;
    let numbers = std::str::from_utf8(text.get(..dash)?).ok()?;
    let (major, minor) = numbers.split_once('.')?;
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && is_number(minor) && text.len() > dash + 1).then_some((major, minor))
}

fn first_line(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    bytes.get(..end.min(64)).unwrap_or_default()
}

/// Returns bytes as text for a log; everything but printable ASCII is escaped.
pub(crate) fn printable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hyphens_in_our_software_version_are_replaced() {
        assert_eq!(ours("Long-haul 0.1\n", ""), "SSH-2.0-Long_haul_0.1_");
        assert_eq!(ours("Longhaul_0.1", " Debian-3\r\nx "), "SSH-2.0-Longhaul_0.1 Debian-3__x");
    }

    #[test]
    fn identification_is_found_with_either_line_ending() {
        let found = next(Role::Server, 0, b"SSH-2.0-OpenSSH_9.2 Debian\r\n\0\0");
        assert_eq!(found, Ok(Found::Identification(28, b"SSH-2.0-OpenSSH_9.2 Debian".to_vec())));
        let found = next(Role::Client, 0, b"SSH-1.99-old\n");
        assert_eq!(found, Ok(Found::Identification(13, b"SSH-1.99-old".to_vec())));
    }

    #[test]
    fn partial_lines_are_not_reported() {
        for line in [&b""[..], b"S", b"SSH-2.0-x", b"SSH-2.0-x\r"] {
            assert_eq!(next(Role::Server, 0, line), Ok(Found::Nothing));
        }
    }

    #[test]
    fn only_servers_may_send_lines_before_identification() {
        assert_eq!(next(Role::Client, 0, b"hello\r\n"), Ok(Found::Banner(7, b"hello".to_vec())));
        assert!(matches!(next(Role::Client, MAX_LINES, b"hello\r\n"), Err(TransportError::NotSsh(_))));
        assert_eq!(
            next(Role::Server, 0, b"GET / HTTP/1.1\r\n"),
            Err(TransportError::NotSsh("\"GET / HTTP/1.1\"".to_owned()))
        );
    }

    #[test]
    fn other_versions_and_malformed_lines_are_refused() {
        assert_eq!(
            next(Role::Client, 0, b"SSH-1.5-x\n"),
            Err(TransportError::ProtocolVersion("1".to_owned()))
        );
        for line in ["SSH-2.0", "SSH-2.0-", "SSH-x.y-z", "SSH-2-z", "SSH-.0-z"] {
            let found = next(Role::Client, 0, format!("{line}\r\n").as_bytes());
            assert_eq!(found, Err(TransportError::BadIdentification(line.to_owned())));
        }
        let not_ssh = |text: &str| Err(TransportError::NotSsh(text.to_owned()));
        let invalid = not_ssh("banner line contains invalid characters");
        for line in [&b"SSH-2.0-a\0b\n"[..], b"\x15\x03\x01\0", b"SSH-2.0-a\rb\n"] {
            assert_eq!(next(Role::Client, 0, line), invalid);
        }
        assert_eq!(next(Role::Client, 0, &[b'x'; MAX_LINE]), not_ssh("banner line too long"));
        assert_eq!(next(Role::Client, 0, b"SSH-\n"), Ok(Found::Banner(5, b"SSH-".to_vec())));
    }

    proptest! {
        #[test]
        fn scanning_any_bytes_stays_in_bounds(bytes in proptest::collection::vec(any::<u8>(), 0..300), server: bool, lines in 0usize..1030) {
            let role = if server { Role::Server } else { Role::Client };
            if let Ok(Found::Banner(n, _) | Found::Identification(n, _)) = next(role, lines, &bytes) {
                prop_assert!(n <= bytes.len() && bytes[n - 1] == b'\n');
            }
        }
    }
}
