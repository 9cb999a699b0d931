//! The header that a load balancer sends ahead of a connection to name its client's address: HAProxy's PROXY
//! protocol, versions 1 (a text line) and 2 (binary).
//!
//! A header is required from the addresses in `ProxyProtocolFrom`, and never parsed from others. The parser
//! is strict and bounded, because the listener runs it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use lh_config::cidr;
use lh_config::pattern::ListMatch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

/// Longest line of version 1 with its line end, bytes.
const LONGEST_LINE: usize = 107;
/// First bytes of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Length of version 2's fixed part, bytes.
const FIXED: usize = 16;
/// Longest accepted header of version 2, bytes. Balancers add a few hundred bytes of their own fields.
const LONGEST: usize = 4096;
/// Longest wait for a complete header; balancers send it at once.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The client that a header names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// The header names no client: the balancer itself connects, or it does not know the client. The socket's
    /// address counts.
    Unknown,
    /// Address of the balancer's client.
    Address(SocketAddr),
}

/// Why a header is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeaderError {
    /// The first bytes are not a header, but SSH for instance.
    #[error("no PROXY header")]
    Missing,
    /// The header breaks the protocol's rules.
    #[error("malformed PROXY header: {0}")]
    Malformed(&'static str),
    /// The connection ended before the header was complete.
    #[error("connection closed in the PROXY header")]
    Closed,
    /// The header was not complete in time.
    #[error("timeout in the PROXY header")]
    TimedOut,
}

use HeaderError::Malformed;

/// Returns whether an address belongs to a load balancer, according to `ProxyProtocolFrom`.
pub(crate) fn is_required(address: IpAddr, from: Option<&str>) -> bool {
    from.is_some_and(|list| cidr::match_list(address, list) == Ok(ListMatch::Yes))
}

/// Parses the start of a connection. Returns the client and the header's length, or `None` while the header
/// is incomplete; then all of `bytes` belongs to it.
///
/// # Errors
/// There is no header, or a malformed one.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Client, usize)>, HeaderError> {
    let starts = |with: &[u8]| {
        let length = bytes.len().min(with.len());
        bytes.get(..length) == with.get(..length)
    };
    if starts(SIGNATURE) {
        binary(bytes)
    } else if starts(b"PROXY ") {
        line(bytes)
    } else {
        Err(HeaderError::Missing)
    }
}

/// Parses `PROXY TCP4 192.0.2.1 192.0.2.2 4000 22`, CR, LF.
fn line(bytes: &[u8]) -> Result<Option<(Client, usize)>, HeaderError> {
    let first = bytes.get(..LONGEST_LINE).unwrap_or(bytes);
    let Some(end) = first.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() < LONGEST_LINE { Ok(None) } else { Err(Malformed("line too long")) };
    };
    let text = first.get(..end).unwrap_or_default();
    let text = text.strip_suffix(b"\r").ok_or(Malformed("line does not end in CR LF"))?;
    let text = std::str::from_utf8(text).map_err(|_| Malformed("line is not text"))?;
    let mut words = text.split(' ').skip(1);
    let family = words.next();
    if family == Some("UNKNOWN") {
        return Ok(Some((Client::Unknown, end + 1)));
    }
    let [source, target, port, target_port] =
        [(); 4].map(|()| words.next()).map(|word| word.ok_or(Malformed("field missing")));
    if words.next().is_some() {
        return Err(Malformed("too many fields"));
    }
    let wrong = |_| Malformed("not an address");
    let parse: fn(&str) -> Result<IpAddr, std::net::AddrParseError> = match family {
        Some("TCP4") => |text| text.parse::<Ipv4Addr>().map(IpAddr::V4),
        Some("TCP6") => |text| text.parse::<Ipv6Addr>().map(IpAddr::V6),
        _ => return Err(Malformed("unknown family")),
    };
    let source = parse(source?).map_err(wrong)?;
    parse(target?).map_err(wrong)?;
    let port = number(port?)?;
    number(target_port?)?;
    Ok(Some((client(source, port), end + 1)))
}

/// Parses a decimal port without leading zeros or a sign.
fn number(text: &str) -> Result<u16, HeaderError> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    let port = text.parse().ok().filter(|_| plain);
    port.ok_or(Malformed("not a port"))
}

fn client(address: IpAddr, port: u16) -> Client {
    Client::Address(SocketAddr::new(address.to_canonical(), port))
}

/// Parses version 2: signature, version and command, family, length, addresses, and the balancer's own
/// fields.
fn binary(bytes: &[u8]) -> Result<Option<(Client, usize)>, HeaderError> {
    let Some([version_command, family, high, low]) = bytes.get(SIGNATURE.len()..FIXED) else {
        return Ok(None);
    };
    let length = FIXED + usize::from(u16::from_be_bytes([*high, *low]));
    if length > LONGEST {
        return Err(Malformed("too long"));
    }
    if version_command >> 4 != 2 {
        return Err(Malformed("unknown version"));
    }
    let Some(mut content) = bytes.get(FIXED..length) else { return Ok(None) };
    let client = match (version_command & 15, family) {
        // The rest describes the balancer's own connection, or nothing.
        (0, _) | (1, 0x00) => Client::Unknown,
        (1, 0x11) => {
            let addresses = take::<12>(&mut content)?;
            let [a, b, c, d, _, _, _, _, high, low, _, _] = addresses;
            client(Ipv4Addr::new(a, b, c, d).into(), u16::from_be_bytes([high, low]))
        }
        (1, 0x21) => {
            let source = take::<16>(&mut content)?;
            take::<16>(&mut content)?;
            let [high, low, _, _] = take::<4>(&mut content)?;
            client(Ipv6Addr::from(source).into(), u16::from_be_bytes([high, low]))
        }
        (1, 0x31) => {
            take::<216>(&mut content)?;
            Client::Unknown
        }
        (1, _) => return Err(Malformed("unknown family")),
        _ => return Err(Malformed("unknown command")),
    };
    if version_command & 15 == 1 && *family != 0 {
        fields(content)?;
    }
    Ok(Some((client, length)))
}

fn take<const N: usize>(content: &mut &[u8]) -> Result<[u8; N], HeaderError> {
    let (first, rest) = content.split_first_chunk::<N>().ok_or(Malformed("addresses cut off"))?;
    *content = rest;
    Ok(*first)
}

/// Checks that the balancer's own fields fill the header exactly. Their values are not used.
fn fields(mut content: &[u8]) -> Result<(), HeaderError> {
    while !content.is_empty() {
        let [_, high, low] = take::<3>(&mut content).map_err(|_| Malformed("field cut off"))?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        content = content.get(length..).ok_or(Malformed("field cut off"))?;
    }
    Ok(())
}

/// A header that is being received. It reads no byte of the connection after the header.
#[derive(Debug, Default)]
pub(crate) struct Incoming(Vec<u8>);

impl Incoming {
    /// Reads the available bytes without blocking. Returns the client once the header is complete.
    ///
    /// # Errors
    /// There is no header, a malformed one, or the connection has ended.
    pub(crate) fn read(&mut self, socket: impl AsFd) -> Result<Option<Client>, HeaderError> {
        let mut buffer = [0; LONGEST];
        let had = self.0.len();
        let space = buffer.get_mut(had..).unwrap_or_default();
        let look = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let got = match recv(&socket, space, look) {
            Ok((0, _)) => return Err(HeaderError::Closed),
            Ok((got, _)) => got,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(_) => return Err(HeaderError::Closed),
        };
        let mut all = std::mem::take(&mut self.0);
        all.extend_from_slice(buffer.get(had..had + got).unwrap_or_default());
        let parsed = parse(&all)?;
        let used = parsed.map_or(all.len(), |(_, length)| length);
        // The peeked bytes are available, so this reads all of them.
        let taken = buffer.get_mut(..used.saturating_sub(had)).unwrap_or_default();
        let count = taken.len();
        if !matches!(recv(&socket, taken, RecvFlags::DONTWAIT), Ok((n, _)) if n == count) {
            return Err(HeaderError::Closed);
        }
        all.truncate(used);
        self.0 = all;
        Ok(parsed.map(|(client, _)| client))
    }

    /// Waits for the header, at most [`TIMEOUT`].
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and [`HeaderError::TimedOut`].
    pub(crate) fn wait(mut self, socket: impl AsFd) -> Result<Client, HeaderError> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(client) = self.read(&socket)? {
                return Ok(client);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(HeaderError::TimedOut);
            }
            let seconds = i64::try_from(left.as_secs()).unwrap_or(1);
            let timeout = Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() };
            // The next read reports an interrupted or failed poll.
            let _ = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn address(text: &str) -> Client {
        Client::Address(text.parse().unwrap())
    }

    fn version_2(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[0x20 | command, family][..], &length, content].concat()
    }

    fn tcp4() -> Vec<u8> {
        vec![192, 0, 2, 7, 10, 0, 0, 1, 0x9c, 0x40, 0, 22]
    }

    #[test]
    fn lines_of_version_1() {
        for (line, expected) in [
            ("PROXY TCP4 192.0.2.7 10.0.0.1 40000 22\r\n", address("192.0.2.7:40000")),
            ("PROXY TCP6 2001:db8::7 ::1 1 22\r\n", address("[2001:db8::7]:1")),
            ("PROXY TCP6 ::ffff:192.0.2.7 ::1 0 22\r\n", address("192.0.2.7:0")),
            ("PROXY UNKNOWN\r\n", Client::Unknown),
            ("PROXY UNKNOWN any thing else\r\n", Client::Unknown),
        ] {
            assert_eq!(parse(line.as_bytes()), Ok(Some((expected, line.len()))), "{line}");
            let with_more = format!("{line}SSH-2.0-x\r\n");
            assert_eq!(parse(with_more.as_bytes()), Ok(Some((expected, line.len()))), "{line}");
            for end in 0..line.len() {
                assert_eq!(parse(&line.as_bytes()[..end]), Ok(None), "{line}");
            }
        }
    }

    #[test]
    fn malformed_lines_are_refused() {
        for line in [
            "PROXY TCP4 192.0.2.7 10.0.0.1 40000 22\n",
            "PROXY TCP4 192.0.2.7 10.0.0.1 40000\r\n",
            "PROXY TCP4 192.0.2.7 10.0.0.1 40000 22 \r\n",
            "PROXY TCP4  192.0.2.7 10.0.0.1 40000 22\r\n",
            "PROXY TCP4 2001:db8::7 ::1 40000 22\r\n",
            "PROXY TCP4 192.0.2.7 10.0.0.1 +4000 22\r\n",
            "PROXY TCP4 192.0.2.7 10.0.0.1 04000 22\r\n",
            "PROXY TCP4 192.0.2.7 10.0.0.1 65536 22\r\n",
            "PROXY TCP4 192.0.2.700 10.0.0.1 4000 22\r\n",
            "PROXY UDP4 192.0.2.7 10.0.0.1 4000 22\r\n",
            "PROXY \r\n",
            "PROXY \u{ff}\r\n",
        ] {
            assert!(matches!(parse(line.as_bytes()), Err(Malformed(_))), "{line}");
        }
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
        assert_eq!(parse(long.as_bytes()), Err(Malformed("line too long")));
        for other in ["SSH-2.0-OpenSSH_9.2\r\n", "proxy TCP4", "\r\n\r\nQUIT"] {
            assert_eq!(parse(other.as_bytes()), Err(HeaderError::Missing), "{other}");
        }
    }

    #[test]
    fn headers_of_version_2() {
        let mut with_fields = tcp4();
        with_fields.extend_from_slice(b"\x04\x00\x03abc\xea\x00\x00");
        let mut tcp6 = [0; 36];
        tcp6[..16].copy_from_slice(&"2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        tcp6[32..34].copy_from_slice(&[0x9c, 0x40]);
        for (command, family, content, expected) in [
            (1, 0x11, tcp4(), address("192.0.2.7:40000")),
            (1, 0x11, with_fields, address("192.0.2.7:40000")),
            (1, 0x21, tcp6.to_vec(), address("[2001:db8::7]:40000")),
            (1, 0x31, vec![b'/'; 216], Client::Unknown),
            (1, 0x00, vec![1, 2, 3], Client::Unknown),
            (0, 0x11, tcp4(), Client::Unknown),
            (0, 0x00, vec![], Client::Unknown),
        ] {
            let mut header = version_2(command, family, &content);
            let length = header.len();
            for end in 0..length {
                assert_eq!(parse(&header[..end]), Ok(None), "{family}");
            }
            header.extend_from_slice(b"SSH-2.0-x\r\n");
            assert_eq!(parse(&header), Ok(Some((expected, length))), "{family}");
        }
    }

    #[test]
    fn malformed_binary_headers_are_refused() {
        let mut cut_field = tcp4();
        cut_field.extend_from_slice(b"\x04\x00\x03ab");
        for (command, family, content) in [
            (2, 0x11, tcp4()),
            (1, 0x12, tcp4()),
            (1, 0x41, tcp4()),
            (1, 0x11, tcp4()[..11].to_vec()),
            (1, 0x21, tcp4()),
            (1, 0x11, cut_field),
            (1, 0x00, vec![0; LONGEST]),
        ] {
            let header = version_2(command, family, &content);
            assert!(matches!(parse(&header), Err(Malformed(_))), "{command} {family}");
        }
        let mut other = version_2(1, 0x11, &tcp4());
        other[12] = 0x11;
        assert_eq!(parse(&other), Err(Malformed("unknown version")));
    }

    #[test]
    fn no_byte_behind_the_header_is_read() {
        let (mut balancer, mut server) = UnixStream::pair().unwrap();
        let mut incoming = Incoming::default();
        assert_eq!(incoming.read(&server), Ok(None));
        for part in ["PROXY TC", "P4 192.0.2.7 10.0.0.1 4", "0 22\r"] {
            balancer.write_all(part.as_bytes()).unwrap();
            assert_eq!(incoming.read(&server), Ok(None));
        }
        balancer.write_all(b"\nSSH-2.0-x\r\n").unwrap();
        assert_eq!(incoming.read(&server), Ok(Some(address("192.0.2.7:40"))));
        drop(balancer);
        let mut rest = String::new();
        server.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "SSH-2.0-x\r\n");
        assert_eq!(Incoming::default().wait(&server), Err(HeaderError::Closed));
    }

    #[test]
    fn only_listed_sources_are_asked() {
        let from = Some("192.0.2.0/24,!192.0.2.9");
        assert!(is_required("192.0.2.1".parse().unwrap(), from));
        assert!(is_required("::ffff:192.0.2.1".parse().unwrap(), from));
        assert!(!is_required("192.0.2.9".parse().unwrap(), from));
        assert!(!is_required("198.51.100.1".parse().unwrap(), from));
        assert!(!is_required("192.0.2.1".parse().unwrap(), None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(start in 0..4_usize, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let start: &[u8] = [&b""[..], b"PROXY ", SIGNATURE, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x10"][start];
            let bytes = [start, &bytes].concat();
            if let Ok(Some((_, length))) = parse(&bytes) {
                prop_assert!(length <= bytes.len());
                // Bytes after a header do not change the result.
                prop_assert_eq!(parse(&bytes[..length]), parse(&bytes));
                prop_assert!((0..length).all(|end| parse(&bytes[..end]) == Ok(None)));
            }
        }
    }
}
