//! The kernel's tables of TCP sockets: which ports other users listen on.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// State of a listening socket.
const LISTEN: &str = "0A";

/// State of a connection that is being made. Old kernels list these behind their listener.
const SYN_RECV: &str = "03";

/// Returns whether a process of another user than `uid` listens at the port of `address` in its family. False
/// where the tables cannot be read.
pub(super) fn has_other_users_listener(address: SocketAddr, uid: u32) -> bool {
    // IPv4 listeners at IPv4-mapped addresses are in the second one.
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().any(|table| {
        File::open(table).is_ok_and(|table| has_listener_in(BufReader::new(table), address, uid))
    })
}

fn has_listener_in(table: impl BufRead, address: SocketAddr, uid: u32) -> bool {
    let sockets = table.lines().map_while(Result::ok).skip(1).map_while(|line| Socket::of_line(&line));
    // Listeners come first. The table of a busy host has many thousand connections behind them.
    sockets.take_while(|socket| socket.may_precede_listeners).any(|socket| {
        socket.listens
            && socket.uid != uid
            && socket.at.port() == address.port()
            && socket.at.is_ipv4() == address.is_ipv4()
    })
}

/// A line of a table.
struct Socket {
    at: SocketAddr,
    listens: bool,
    may_precede_listeners: bool,
    uid: u32,
}

impl Socket {
    /// Reads number, local address, remote address, state, queues, timer, retransmits, user id; more follows.
    fn of_line(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let at = address(fields.next()?)?;
        let state = fields.nth(1)?;
        let uid = fields.nth(3)?.parse().ok()?;
        let listens = state == LISTEN;
        Some(Self { at, listens, may_precede_listeners: listens || state == SYN_RECV, uid })
    }
}

/// Reads an address: 32-bit words in hexadecimal, each in the byte order of the host, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = if ip.len() == 8 {
        IpAddr::from(word(0)?)
    } else {
        let octets = [word(0)?, word(8)?, word(16)?, word(24)?];
        Ipv6Addr::from(<[u8; 16]>::try_from(octets.as_flattened()).ok()?).to_canonical()
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A line as the kernel writes it.
    fn line(at: &str, state: &str, uid: u32) -> String {
        let at: SocketAddr = at.parse().unwrap();
        let words = |octets: &[u8]| -> String {
            octets
                .chunks(4)
                .map(|word| format!("{:08X}", u32::from_ne_bytes(word.try_into().unwrap())))
                .collect()
        };
        let ip = match at.ip() {
            IpAddr::V4(ip) => words(&ip.octets()),
            IpAddr::V6(ip) => words(&ip.octets()),
        };
        let port = at.port();
        format!(
            "   0: {ip}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  {uid}        0 7 1\n"
        )
    }

    #[test]
    fn listeners_of_other_users_are_found() {
        let found = |lines: &[(&str, &str, u32)], at: &str| {
            let lines: String = lines.iter().map(|(at, state, uid)| line(at, state, *uid)).collect();
            let table = format!("  sl  local_address rem_address   st\n{lines}");
            has_listener_in(table.as_bytes(), at.parse().unwrap(), 1000)
        };
        let other = ("192.0.2.7:8080", LISTEN, 1001);
        assert!(found(&[other], "0.0.0.0:8080"));
        assert!(found(&[("10.0.0.1:22", LISTEN, 0), ("10.0.0.1:22", SYN_RECV, 0), other], "0.0.0.0:8080"));
        assert!(!found(&[other], "0.0.0.0:8081"));
        assert!(!found(&[other], "[::]:8080"));
        assert!(!found(&[("192.0.2.7:8080", LISTEN, 1000)], "0.0.0.0:8080"));
        assert!(!found(&[("192.0.2.7:8080", "01", 1001)], "0.0.0.0:8080"));
        assert!(found(&[("[2001:db8::7]:8080", LISTEN, 1001)], "[::]:8080"));
        assert!(!found(&[("[2001:db8::7]:8080", LISTEN, 1001)], "0.0.0.0:8080"));
        assert!(found(&[("[::ffff:192.0.2.7]:8080", LISTEN, 1001)], "0.0.0.0:8080"));
    }

    #[test]
    fn the_kernels_table_is_understood() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert!(has_other_users_listener(at, own + 1));
    }
}
