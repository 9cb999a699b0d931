//! Probes of the path before a login: the greeting, and the largest segment that arrives.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use lh_sys::tcp_info::TcpInfo;

use crate::fault::{Fault, NoServer};

/// Time limit of connecting and of the greeting.
const LIMIT: Duration = Duration::from_secs(10);
/// Lines before the identification may have this many bytes in all.
const LONGEST_GREETING: usize = 32 * 1024;
/// Characters of another protocol's first line that are shown.
const SHOWN: usize = 60;
/// Time in which a segment must be acknowledged, besides round trips.
const TIMEOUT: Duration = Duration::from_millis(600);
/// Refusals after which a server is not tried again, and the time between tries.
pub(crate) const MOST_REFUSALS: usize = 4;
pub(crate) const REFUSAL_PAUSE: Duration = Duration::from_millis(300);
/// Lower limit of the search, bytes. IPv4 and IPv6 pass it everywhere.
const SMALL: u64 = 400;
/// SSH_MSG_IGNORE (RFC 4253 section 11.2).
const IGNORE: u8 = 2;

/// A host that answered.
#[derive(Debug, Clone)]
pub(crate) struct Reached {
    pub(crate) address: SocketAddr,
    /// Seconds of TCP's handshake.
    pub(crate) connect: f64,
    /// Connections that the server refused first.
    pub(crate) refused: usize,
    /// Addresses that were tried before this one in vain, and the seconds that each took.
    pub(crate) tried: Vec<(IpAddr, f64)>,
}

/// Texts of servers in place of a greeting if they have too many connections, or too many of this machine.
const REFUSALS: [&str; 2] = ["Exceeded MaxStartups", "Not allowed at this time"];

/// Resolves the name, connects and reads the greeting.
///
/// # Errors
/// What failed, in words.
pub(crate) fn reach(host: &str, port: u16) -> Result<Reached, Fault> {
    let no_server = |place: String| |fault| Fault::NoServer { place, fault };
    let addresses = (host, port).to_socket_addrs();
    let addresses = addresses.map_err(NoServer::Connect).map_err(no_server(host.to_owned()))?;
    let mut failure = no_server(host.to_owned())(NoServer::NoAddress);
    let mut tried = Vec::new();
    for address in addresses {
        let (mut refused, begun) = (0, Instant::now());
        let mut greeted = greet(address);
        while refused < MOST_REFUSALS && matches!(greeted, Err(NoServer::Refused(_) | NoServer::Closed)) {
            refused += 1;
            std::thread::sleep(REFUSAL_PAUSE);
            // A server that is gone meanwhile has closed that connection for this.
            match greet(address) {
                Err(NoServer::Connect(_)) => break,
                again => greeted = again,
            }
        }
        match greeted {
            Ok((_, connect)) => return Ok(Reached { address, connect, refused, tried }),
            Err(fault) => {
                tried.push((address.ip(), begun.elapsed().as_secs_f64()));
                let place = format!("connect to host {} port {}", address.ip(), address.port());
                failure = no_server(place)(fault);
            }
        }
    }
    Err(failure)
}

/// Connects, and reads the beginning of the greeting.
fn greet(address: SocketAddr) -> Result<(TcpStream, f64), NoServer> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, LIMIT).map_err(NoServer::Connect)?;
    let connect = begun.elapsed();
    let ready = stream.set_nodelay(true).and_then(|()| {
        // The name keeps the server from counting the connection as one without identification.
        stream.write_all(b"SSH-2.0-Longhaul_probe\r\n")
    });
    ready.map_err(NoServer::Connect)?;
    let mut greeting = Vec::new();
    while !has_greeting(&greeting) {
        let left = LIMIT.saturating_sub(begun.elapsed());
        if left.is_zero() || greeting.len() > LONGEST_GREETING {
            return Err(no_greeting(&greeting, NoServer::Silent(LIMIT.as_secs())));
        }
        let mut more = [0; 1024];
        match stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut more)) {
            Ok(0) => return Err(no_greeting(&greeting, NoServer::Closed)),
            Ok(count) => greeting.extend_from_slice(more.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return Err(no_greeting(&greeting, NoServer::Closed));
            }
            Err(error) => return Err(no_greeting(&greeting, NoServer::Connect(error))),
        }
    }
    Ok((stream, connect.as_secs_f64()))
}

/// Returns whether a line begins like an identification. Other lines may come before it (RFC 4253 section
/// 4.2).
fn has_greeting(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"SSH-"))
}

/// Classifies a server that has not greeted: it speaks another protocol, if it has said something.
fn no_greeting(said: &[u8], silent: NoServer) -> NoServer {
    let said = String::from_utf8_lossy(said);
    match said.lines().find(|line| !line.trim().is_empty()) {
        Some(line) if REFUSALS.contains(&line.trim()) => NoServer::Refused(line.trim().to_owned()),
        Some(line) => NoServer::OtherProtocol(line.trim().chars().take(SHOWN).collect()),
        None => silent,
    }
}

/// The largest segment that arrives at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segments {
    /// Bytes of data that pass in one packet.
    pub(crate) passes: u64,
    /// Bytes of data that both ends think would pass.
    pub(crate) offered: u64,
    /// Bytes of headers around them.
    pub(crate) headers: u64,
}

impl Segments {
    /// Returns whether the path swallows packets that both ends think pass.
    pub(crate) const fn is_black_hole(self) -> bool {
        self.passes < self.offered
    }

    /// The path's MTU as the probe found it, bytes.
    pub(crate) const fn path_mtu(self) -> u64 {
        self.passes + self.headers
    }
}

/// Searches the largest segment that arrives. Each size that gets lost costs a connection.
pub(crate) fn largest_segment(address: SocketAddr) -> Option<Segments> {
    let mut probe = SegmentProbe::new(address)?;
    let (offered, headers) = (probe.offered, probe.headers);
    let passes = largest(offered, |size| probe.arrives(size))?;
    Some(Segments { passes, offered, headers })
}

/// The largest size up to `offered` that `arrives`; `None` if that cannot be told.
fn largest(offered: u64, mut arrives: impl FnMut(u64) -> Option<bool>) -> Option<u64> {
    if arrives(SMALL)? && arrives(offered)? {
        return Some(offered);
    }
    let (mut passes, mut fails) = (SMALL, offered);
    while passes + 1 < fails {
        let size = usize::midpoint(passes as usize, fails as usize) as u64;
        if arrives(size)? {
            passes = size;
        } else {
            fails = size;
        }
    }
    // Where the path loses packets of any size, a probe or its acknowledgements may have been among them.
    Some(if arrives(offered)? { offered } else { passes })
}

struct SegmentProbe {
    address: SocketAddr,
    stream: TcpStream,
    timeout: Duration,
    offered: u64,
    headers: u64,
    lost: bool,
}

impl SegmentProbe {
    fn new(address: SocketAddr) -> Option<Self> {
        let (stream, connect) = greet(address).ok()?;
        let info = TcpInfo::of(&stream)?;
        let offered = info.get("snd_mss")?;
        let timeout = TIMEOUT + Duration::from_secs_f64(4.0 * connect);
        let headers = info.get("pmtu")?.checked_sub(offered).filter(|bytes| *bytes < 200)?;
        let mut probe = Self { address, stream, timeout, offered, headers, lost: false };
        probe.begin_packet().ok()?;
        Some(probe)
    }

    /// Sends the header of a long SSH_MSG_IGNORE, whose data are the probes. It never ends, so that the
    /// server has nothing to answer.
    fn begin_packet(&mut self) -> std::io::Result<()> {
        let mut packet = 32_764_u32.to_be_bytes().to_vec();
        packet.extend_from_slice(&[4, IGNORE]);
        packet.extend_from_slice(&32_754_u32.to_be_bytes());
        self.stream.write_all(&packet)
    }

    fn arrives(&mut self, size: u64) -> Option<bool> {
        if self.lost {
            let (stream, _) = greet(self.address).ok()?;
            self.stream = stream;
            self.begin_packet().ok()?;
            self.lost = false;
        }
        // Earlier data must not share a packet with the probe.
        self.acknowledged();
        self.stream.write_all(&vec![0; usize::try_from(size).ok()?]).ok()?;
        let arrived = self.acknowledged();
        self.lost = !arrived;
        Some(arrived)
    }

    fn acknowledged(&self) -> bool {
        let end = Instant::now() + self.timeout;
        while Instant::now() < end {
            if TcpInfo::of(&self.stream).and_then(|info| info.get("unacked")) == Some(0) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Returns what is said about a server that sends this and closes.
    fn said_about(text: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut greeting = [0; 24];
            stream.read_exact(&mut greeting).unwrap();
            stream.write_all(text).unwrap();
        });
        let result = reach("127.0.0.1", port).map(|_| "reached".to_owned());
        server.join().unwrap();
        result.unwrap_or_else(|fault| fault.to_string().replace(&port.to_string(), "N"))
    }

    #[test]
    fn size_that_was_lost_by_chance_is_no_black_hole() {
        let mut asked = 0;
        let by_chance = |_| {
            asked += 1;
            // The second probe and the next one get lost.
            Some(!(2..=3).contains(&asked))
        };
        assert_eq!(largest(1448, by_chance), Some(1448));
        assert_eq!(largest(1448, |size| Some(size <= 1328)), Some(1328));
        assert_eq!(largest(1448, |_| None), None);
    }

    #[test]
    fn other_protocols_are_told_from_ssh() {
        assert_eq!(said_about(b"a notice\r\nSSH-2.0-x\r\n"), "reached");
        let place = "connect to host 127.0.0.1 port N";
        let other = said_about(b"\r\nHTTP/1.1 400 \x1b[2JBad\r\n");
        assert_eq!(other, format!("{place}: no SSH server: it says \"HTTP/1.1 400 \\u{{1b}}[2JBad\""));
        assert_eq!(
            said_about(b""),
            format!("{place}: the connection was closed before the server's greeting")
        );
    }
}
