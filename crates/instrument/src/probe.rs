//! Probes of the path before a login: the greeting, and the largest segment that arrives.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use lh_sys::errno_text;
use lh_sys::tcp_info::TcpInfo;

/// Time limit of connecting and of the greeting.
const LIMIT: Duration = Duration::from_secs(10);
/// Time in which a segment must be acknowledged, besides round trips.
const PATIENCE: Duration = Duration::from_millis(600);
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
}

/// Resolves the name, connects and reads the greeting.
///
/// # Errors
/// What failed, in words.
pub(crate) fn reach(host: &str, port: u16) -> Result<Reached, String> {
    let addresses =
        (host, port).to_socket_addrs().map_err(|error| format!("{host}: {}", errno_text(&error)))?;
    let mut failure = format!("{host}: no address");
    for address in addresses {
        match greet(address) {
            Ok((_, connect)) => return Ok(Reached { address, connect }),
            Err(error) => {
                failure = format!(
                    "connect to host {} port {}: {}",
                    address.ip(),
                    address.port(),
                    errno_text(&error)
                );
            }
        }
    }
    Err(failure)
}

fn greet(address: SocketAddr) -> std::io::Result<(TcpStream, f64)> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    let connect = begun.elapsed();
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    // The name keeps the server from counting the connection as one without identification.
    stream.write_all(b"SSH-2.0-Longhaul_probe\r\n")?;
    let mut first = [0; 255];
    loop {
        match stream.read(&mut first) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => break,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((stream, connect.as_secs_f64()))
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
    /// True where the path swallows packets that both ends think pass.
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
    let (mut passes, mut fails) = (SMALL, offered + 1);
    if probe.arrives(SMALL)? && probe.arrives(offered)? {
        return Some(Segments { passes: offered, offered, headers });
    }
    fails = fails.min(offered);
    while passes + 1 < fails {
        let size = usize::midpoint(passes as usize, fails as usize) as u64;
        if probe.arrives(size)? {
            passes = size;
        } else {
            fails = size;
        }
    }
    Some(Segments { passes, offered, headers })
}

struct SegmentProbe {
    address: SocketAddr,
    stream: TcpStream,
    patience: Duration,
    offered: u64,
    headers: u64,
    lost: bool,
}

impl SegmentProbe {
    fn new(address: SocketAddr) -> Option<Self> {
        let (stream, connect) = greet(address).ok()?;
        let info = TcpInfo::of(&stream)?;
        let offered = info.get("snd_mss")?;
        let patience = PATIENCE + Duration::from_secs_f64(4.0 * connect);
        let headers = info.get("pmtu")?.checked_sub(offered).filter(|bytes| *bytes < 200)?;
        let mut probe = Self { address, stream, patience, offered, headers, lost: false };
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
        // What was sent before must not share a packet with the probe.
        self.acknowledged();
        self.stream.write_all(&vec![0; usize::try_from(size).ok()?]).ok()?;
        let arrived = self.acknowledged();
        self.lost = !arrived;
        Some(arrived)
    }

    fn acknowledged(&self) -> bool {
        let end = Instant::now() + self.patience;
        while Instant::now() < end {
            if TcpInfo::of(&self.stream).and_then(|info| info.get("unacked")) == Some(0) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }
}
