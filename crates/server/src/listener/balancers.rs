//! Connections from load balancers whose header has not been received yet. The client's address is unknown
//! until then, so they do not count as startups.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use crate::log::{Log, info, verbose};
use crate::proxy_header::{Client, HeaderError, Incoming, TIMEOUT, is_required};

/// Largest number of connections that wait for their header. Balancers send it at once, so more than these
/// are stuck.
const MOST: usize = 256;

/// A connection that waits for its header.
struct Waiting {
    socket: OwnedFd,
    balancer: SocketAddr,
    incoming: Incoming,
    deadline: Instant,
}

/// A connection whose client address is known.
pub(super) struct Arrived {
    pub(super) socket: OwnedFd,
    /// Address of the client, used for rules and log lines.
    pub(super) peer: SocketAddr,
    /// The client's address as the load balancer named it; `None` where it is the socket's own.
    pub(super) client: Option<SocketAddr>,
}

/// The connections that wait for their headers. See the module documentation.
pub(super) struct Balancers {
    from: Option<String>,
    waiting: Vec<Waiting>,
    log: Log,
}

impl Balancers {
    pub(super) fn new(from: Option<&str>, log: Log) -> Self {
        Self { from: from.map(str::to_owned), waiting: Vec::new(), log }
    }

    /// Returns whether a header is required from this address.
    pub(super) fn include(&self, address: IpAddr) -> bool {
        is_required(address, self.from.as_deref())
    }

    /// Returns whether [`add`](Self::add) closes the oldest connection.
    pub(super) const fn is_full(&self) -> bool {
        self.waiting.len() >= MOST
    }

    /// Adds a connection that waits for its header. Closes the oldest one when too many wait.
    pub(super) fn add(&mut self, socket: OwnedFd, balancer: SocketAddr, now: Instant) {
        if self.is_full() {
            let oldest = self.waiting.remove(0);
            refuse(&self.log, oldest.balancer, HeaderError::TimedOut);
        }
        let deadline = now + TIMEOUT;
        self.waiting.push(Waiting { socket, balancer, incoming: Incoming::default(), deadline });
    }

    pub(super) fn interests<'a>(&'a self, out: &mut Vec<PollFd<'a>>) {
        out.extend(self.waiting.iter().map(|waiting| PollFd::new(&waiting.socket, PollFlags::IN)));
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.deadline).min()
    }

    /// Reads received bytes. Returns the connections whose headers are complete; closes those with a
    /// malformed or late header.
    pub(super) fn arrived(&mut self, now: Instant) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        for mut waiting in std::mem::take(&mut self.waiting) {
            match waiting.incoming.read(&waiting.socket) {
                Ok(Some(client)) => {
                    arrived.push(named(waiting.socket, waiting.balancer, client, &self.log));
                }
                Ok(None) if waiting.deadline <= now => {
                    refuse(&self.log, waiting.balancer, HeaderError::TimedOut);
                }
                Ok(None) => self.waiting.push(waiting),
                Err(problem) => refuse(&self.log, waiting.balancer, problem),
            }
        }
        arrived
    }

    /// Waits for the header of one connection (`-d`).
    pub(super) fn wait(&self, socket: OwnedFd, balancer: SocketAddr) -> Option<Arrived> {
        match Incoming::default().wait(&socket) {
            Ok(client) => Some(named(socket, balancer, client, &self.log)),
            Err(problem) => {
                refuse(&self.log, balancer, problem);
                None
            }
        }
    }
}

fn named(socket: OwnedFd, balancer: SocketAddr, client: Client, log: &Log) -> Arrived {
    match client {
        Client::Unknown => Arrived { socket, peer: balancer, client: None },
        Client::Address(peer) => {
            let (ip, port) = (peer.ip(), peer.port());
            verbose!(
                log,
                "Connection from {ip} port {port} through {} port {}",
                balancer.ip(),
                balancer.port()
            );
            Arrived { socket, peer, client: Some(peer) }
        }
    }
}

fn refuse(log: &Log, balancer: SocketAddr, problem: HeaderError) {
    info!(log, "Connection from {} port {} closed: {problem}", balancer.ip(), balancer.port());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Level;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn late_and_superfluous_connections_are_closed() {
        let log = Log::lines(Level::Info);
        let mut balancers = Balancers::new(Some("192.0.2.0/24"), log.clone());
        let now = Instant::now();
        let balancer: SocketAddr = "192.0.2.1:9".parse().unwrap();
        assert!(balancers.include(balancer.ip()));
        let add = |balancers: &mut Balancers| {
            let (theirs, ours) = UnixStream::pair().unwrap();
            balancers.add(ours.into(), balancer, now);
            theirs
        };
        let (mut first, mut second) = (add(&mut balancers), add(&mut balancers));
        second.write_all(b"PROXY TCP4 198.51.100.7 192.0.2.2 40 22\r\nSSH").unwrap();
        let arrived = balancers.arrived(now);
        let expected: SocketAddr = "198.51.100.7:40".parse().unwrap();
        assert_eq!(arrived.len(), 1);
        assert_eq!((arrived[0].peer, arrived[0].client), (expected, Some(expected)));
        assert_eq!(balancers.deadline(), Some(now + TIMEOUT));
        assert!(balancers.arrived(now + TIMEOUT).is_empty());
        assert_eq!(first.read(&mut [0; 1]).unwrap(), 0);
        let late = "Connection from 192.0.2.1 port 9 closed: timeout in the PROXY header";
        assert_eq!(log.taken(), [late]);
        let clients: Vec<UnixStream> = (0..=MOST).map(|_| add(&mut balancers)).collect();
        assert_eq!((&clients[0]).read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(log.taken(), [late]);
        assert_eq!(balancers.waiting.len(), MOST);
    }
}
