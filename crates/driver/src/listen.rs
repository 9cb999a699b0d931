//! Listeners for connections to forward.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, RawMode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, bind, getsockname, listen, sockopt};

use crate::handler::Source;
use crate::poller::{Interest, Interests, Ready};
use crate::{ControlCx, Family};

/// Length of the kernel's accept queue.
const BACKLOG: i32 = 1024;
/// Connections accepted in one turn of the loop.
const PER_TURN: usize = 64;
/// Pause in accepting when the process has no descriptor or memory left.
const PAUSE: Duration = Duration::from_secs(1);

/// Local addresses to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenOn {
    /// This machine only: `::1` and `127.0.0.1`.
    Loopback,
    /// Every address.
    Everywhere,
    /// A name or an address.
    Host(String),
}

impl ListenOn {
    /// Returns the addresses if no resolver is needed.
    ///
    /// # Errors
    /// Returns the name that must be looked up.
    pub fn addresses(&self, port: u16, family: Family) -> Result<Vec<SocketAddr>, &str> {
        let ips: [IpAddr; 2] = match self {
            Self::Loopback => [Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()],
            Self::Everywhere => [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            Self::Host(name) => match name.parse::<IpAddr>() {
                Ok(ip) => return Ok(vec![SocketAddr::new(ip, port)]),
                Err(_) => return Err(name),
            },
        };
        let all = ips.into_iter().map(|ip| SocketAddr::new(ip, port));
        Ok(all.filter(|address| family.allows(address)).collect())
    }
}

/// Result of [`listen_tcp`].
#[derive(Debug, Default)]
pub struct Bound {
    /// Listening sockets and their addresses.
    pub bound: Vec<(OwnedFd, SocketAddr)>,
    /// Addresses that could not be bound, and why.
    pub failed: Vec<(SocketAddr, io::Error)>,
}

/// Listens on each of these addresses. Where the port is 0, all get the number that the kernel chose for the
/// first. Failures are returned with their reason.
pub fn listen_tcp(addresses: &[SocketAddr]) -> Bound {
    let (mut bound, mut failed) = (Vec::new(), Vec::new());
    let mut chosen = None;
    for address in addresses {
        let mut address = *address;
        if let Some(port) = chosen.filter(|_| address.port() == 0) {
            address.set_port(port);
        }
        match listen_one(&address) {
            Ok((fd, at)) => {
                chosen.get_or_insert(at.port());
                bound.push((fd, at));
            }
            Err(error) => failed.push((address, error.into())),
        }
    }
    Bound { bound, failed }
}

fn listen_one(address: &SocketAddr) -> Result<(OwnedFd, SocketAddr), Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = lh_sys::socket::stream(family)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        // IPv4 gets a socket of its own.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, address)?;
    lh_sys::tuning::unpaced_within_machine(&socket, address);
    listen(&socket, BACKLOG)?;
    let at = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok((socket, at))
}

/// The file of a listening Unix socket.
#[derive(Debug, Clone)]
pub struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    /// Removes the file, if its path still leads to the file that the listener created.
    pub fn remove(&self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A listening Unix socket. Dropping it removes its file ([`SocketFile::remove`]).
#[derive(Debug)]
pub struct UnixListener {
    fd: OwnedFd,
    file: SocketFile,
}

impl UnixListener {
    /// Listens on `path`. The file gets the modes that `mask` leaves (as umask). With `unlink`, an existing
    /// file at `path` is removed first, but not a directory.
    ///
    /// # Errors
    /// The path is too long or in use, or its directory is not writable.
    pub fn bind(path: &Path, mask: u32, unlink: bool) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        let socket = lh_sys::socket::stream(AddressFamily::UNIX)?;
        if unlink {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        // The umask belongs to the process, but no other code creates files in this one while a loop runs.
        let before = rustix::process::umask(Mode::from_raw_mode((mask & 0o777) as RawMode));
        let result = bind(&socket, &address);
        rustix::process::umask(before);
        result?;
        let file = SocketFile { path: path.to_owned(), identity: identity(path) };
        let listener = Self { fd: socket, file };
        listen(&listener.fd, BACKLOG)?;
        Ok(listener)
    }

    /// Renames the socket's file to `path`, where no file may exist yet.
    ///
    /// # Errors
    /// `AlreadyExists`, or an error of the directory. The listener is closed and its socket file deleted
    /// then.
    pub fn link_to(mut self, path: &Path) -> io::Result<Self> {
        std::fs::hard_link(&self.file.path, path)?;
        let _ = std::fs::remove_file(&self.file.path);
        path.clone_into(&mut self.file.path);
        Ok(self)
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// File of the socket, for an owner that must remove it before dropping the listener.
    pub fn file(&self) -> SocketFile {
        self.file.clone()
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::lstat(path).ok()?;
    #[allow(clippy::unnecessary_cast)]
    Some((stat.st_dev as u64, stat.st_ino as u64))
}

impl Drop for UnixListener {
    fn drop(&mut self) {
        self.file.remove();
    }
}

impl AsFd for UnixListener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A listening socket of either kind.
enum Socket {
    Tcp(OwnedFd),
    Unix(UnixListener),
}

impl AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Tcp(fd) => fd.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// An accepted connection with the peer's address, or the accept error (the listener tries again after a
/// second).
pub type Accepted = io::Result<(OwnedFd, Option<SocketAddr>)>;

/// Callback for accepted connections.
type Acceptor = Box<dyn FnMut(Accepted, &mut ControlCx<'_>)>;

/// A listener as an event source; dropping it (with [`ControlCx::remove_source`]) ends it.
pub struct Listening {
    socket: Socket,
    paused: Option<Instant>,
    accepted: Acceptor,
}

impl Listening {
    /// `accepted` is called for each connection, with the peer's address. The connections get TCP_NODELAY.
    pub fn tcp(socket: OwnedFd, accepted: impl FnMut(Accepted, &mut ControlCx<'_>) + 'static) -> Self {
        Self { socket: Socket::Tcp(socket), paused: None, accepted: Box::new(accepted) }
    }

    /// Like [`tcp`](Self::tcp), for a Unix socket; peers have no address.
    pub fn unix(
        listener: UnixListener,
        accepted: impl FnMut(Accepted, &mut ControlCx<'_>) + 'static,
    ) -> Self {
        Self { socket: Socket::Unix(listener), paused: None, accepted: Box::new(accepted) }
    }
}

impl Source for Listening {
    fn interests<'a>(&'a self, out: &mut Interests<'a>) {
        if self.paused.is_none() {
            out.add(0, self.socket.as_fd(), Interest::READ);
        }
    }

    fn on_ready(&mut self, _token: usize, _ready: Ready, cx: &mut ControlCx<'_>) {
        for _ in 0..PER_TURN {
            match lh_sys::socket::accept(&self.socket) {
                Ok((socket, from)) => {
                    let from = from.and_then(|from: SocketAddrAny| SocketAddr::try_from(from).ok());
                    if from.is_some() {
                        let _ = sockopt::set_tcp_nodelay(&socket, true);
                    }
                    let from = from.map(|from| SocketAddr::new(from.ip().to_canonical(), from.port()));
                    (self.accepted)(Ok((socket, from)), cx);
                }
                Err(Errno::AGAIN) => return,
                // The peer hung up before it was accepted.
                Err(Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => {}
                Err(error) => {
                    // No descriptor or memory is left: waiting connections stay in the kernel's queue.
                    self.paused = Some(cx.now() + PAUSE);
                    return (self.accepted)(Err(error.into()), cx);
                }
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.paused
    }

    fn on_timeout(&mut self, _cx: &mut ControlCx<'_>) {
        self.paused = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_port_serves_both_families() {
        let Bound { bound, failed } = listen_tcp(&ListenOn::Loopback.addresses(0, Family::Any).unwrap());
        assert!(!bound.is_empty(), "{failed:?}");
        assert!(bound.iter().all(|(_, at)| at.port() == bound[0].1.port() && at.ip().is_loopback()));
        let taken = listen_tcp(&[bound[0].1]).failed;
        assert_eq!(taken[0].1.raw_os_error(), Some(Errno::ADDRINUSE.raw_os_error()));
    }

    #[test]
    fn drop_removes_only_its_own_socket_file() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path, 0o177, false).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(UnixListener::bind(&path, 0o177, false).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let second = UnixListener::bind(&path, 0o117, true).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        drop(listener);
        assert!(path.exists(), "the file belongs to the second listener");
        drop(second);
        assert!(!path.exists());
    }
}
