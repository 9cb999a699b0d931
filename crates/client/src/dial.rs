//! Connects a TCP socket to one of a host's addresses.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use lh_sys::errno_text;
use lh_sys::tuning::{Refused, Tuning};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};

use crate::race::{AttemptCallback, Begun, race};
use crate::resolve::{Family, resolve};

/// The parameters for reaching a host by TCP.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dial {
    /// Local address to bind to.
    pub(crate) bind: Option<String>,
    /// Local interface to bind to; `bind` has precedence.
    pub(crate) interface: Option<String>,
    /// Time limit per address; `None` leaves it to the kernel.
    pub(crate) timeout: Option<Duration>,
    /// Rounds through all addresses, one second apart; at least 1.
    pub(crate) attempts: u32,
    /// Whether SO_KEEPALIVE is set.
    pub(crate) keepalive: bool,
    /// Tries the addresses in parallel, each with this head start over the next.
    pub(crate) head_start: Option<Duration>,
    /// Whether multipath TCP is used, if the kernel supports it.
    pub(crate) multipath: bool,
    /// Further socket options, set before connecting; the congestion control also afterwards.
    pub(crate) tuning: Tuning,
}

/// Requested socket features that the kernel refused for an established connection.
#[derive(Debug, Default)]
pub(crate) struct Shortfall {
    /// Why the socket is plain TCP although multipath TCP was requested.
    pub(crate) multipath: Option<io::Error>,
    pub(crate) tuning: Vec<Refused>,
}

/// Error: the requested local address cannot be used. `Display` is OpenSSH's message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnusableSource(String);

impl UnusableSource {
    /// Returns the error inside an [`io::Error`], if it is one of these.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// Returns an [`UnusableSource`] with this message.
fn unusable(message: String) -> io::Error {
    io::Error::other(UnusableSource(message))
}

impl Dial {
    /// Tries the addresses in turn or in parallel; calls `tried` for each attempt (`None`) and each failure.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub(crate) fn connect(
        &self,
        addresses: &[SocketAddr],
        tried: AttemptCallback<'_>,
        shortfall: &mut Shortfall,
    ) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, address) = self.connect_first(addresses, tried, shortfall)?;
        // Connecting replaces the congestion control by that of a route with `congctl`.
        let again = Tuning { congestion: self.tuning.congestion.clone(), ..Tuning::default() };
        shortfall.tuning.retain(|refused| !matches!(refused, Refused::Congestion(..)));
        shortfall.tuning.extend(again.apply(&socket));
        Ok((TcpStream::from(socket), address))
    }

    fn connect_first(
        &self,
        addresses: &[SocketAddr],
        tried: AttemptCallback<'_>,
        shortfall: &mut Shortfall,
    ) -> io::Result<(OwnedFd, SocketAddr)> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for attempt in 0..self.attempts.max(1) {
            if attempt > 0 {
                std::thread::sleep(Duration::from_secs(1));
            }
            if let Some(head_start) = self.head_start {
                let mut begin = |address: &SocketAddr| self.begin(address, shortfall);
                match race(addresses, head_start, self.timeout, &mut begin, tried) {
                    Ok(connected) => return Ok(connected),
                    Err(error) => last = error,
                }
                continue;
            }
            for address in addresses {
                tried(address, None);
                match self.connect_one(address, shortfall) {
                    Ok(socket) => return Ok((socket, *address)),
                    Err(error) => {
                        tried(address, Some(&error));
                        last = error;
                    }
                }
            }
        }
        Err(last)
    }

    fn connect_one(&self, address: &SocketAddr, shortfall: &mut Shortfall) -> io::Result<OwnedFd> {
        match self.begin(address, shortfall)? {
            Begun::Connected(socket) => Ok(socket),
            Begun::UnderWay(socket) => {
                wait_writable(&socket, self.timeout)?;
                sockopt::socket_error(&socket)??;
                Ok(socket)
            }
        }
    }

    /// Returns a socket of the requested kind. If multipath TCP is refused, it is plain TCP, and the reason
    /// is stored.
    fn socket(&self, family: AddressFamily, shortfall: &mut Shortfall) -> io::Result<OwnedFd> {
        if self.multipath {
            match lh_sys::socket::multipath(family) {
                Ok(socket) => return Ok(socket),
                Err(error) => shortfall.multipath = Some(error.into()),
            }
        }
        Ok(lh_sys::socket::stream(family)?)
    }

    fn begin(&self, address: &SocketAddr, shortfall: &mut Shortfall) -> io::Result<Begun> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = self.socket(family, shortfall)?;
        let source = match (&self.bind, &self.interface) {
            (Some(bind), _) => Some(bind_address(bind, address)?),
            (None, Some(interface)) => Some(interface_address(interface, address)?),
            (None, None) => None,
        };
        if let Some(source) = source {
            rustix::net::bind(&socket, &source)
                .map_err(|error| unusable(format!("bind {}: {}", source.ip(), errno_text(&error.into()))))?;
        }
        if self.keepalive {
            sockopt::set_socket_keepalive(&socket, true)?;
        }
        // Keystrokes and window updates must not wait for an acknowledgement.
        sockopt::set_tcp_nodelay(&socket, true)?;
        lh_sys::tuning::unpaced_within_machine(&socket, address);
        // The last attempt's result is kept: it is equal for every socket of this machine.
        shortfall.tuning = self.tuning.apply(&socket);
        match rustix::net::connect(&socket, address) {
            Ok(()) => Ok(Begun::Connected(socket)),
            Err(Errno::INPROGRESS) => Ok(Begun::UnderWay(socket)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Resolves `BindAddress` to an address of the target's family.
fn bind_address(bind: &str, target: &SocketAddr) -> io::Result<SocketAddr> {
    let any: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    if bind == "*" {
        return Ok(SocketAddr::new(any, 0));
    }
    let family = if target.is_ipv4() { Family::Inet } else { Family::Inet6 };
    let found =
        resolve(bind, 0, family).map_err(|words| unusable(format!("getaddrinfo: {bind}: {words}")))?;
    found.first().copied().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Returns an address of the interface `BindInterface`, of the target's family. Prefers addresses that are
/// valid beyond this machine and its link.
fn interface_address(interface: &str, target: &SocketAddr) -> io::Result<SocketAddr> {
    let mut all = lh_sys::interfaces::addresses()?;
    all.retain(|each| each.up && each.name == interface && each.address.is_ipv4() == target.is_ipv4());
    let best = all.iter().find(|each| !each.is_local()).or_else(|| all.first());
    best.map(|each| each.address)
        .ok_or_else(|| unusable(format!("getifaddrs: {interface}: no suitable addresses")))
}

/// Waits until `fd` is writable; `None` waits without limit.
fn wait_writable(fd: &impl AsFd, timeout: Option<Duration>) -> io::Result<()> {
    let deadline = timeout.map(|t| Instant::now() + t);
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let spec = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(fd, PollFlags::OUT)], spec.as_ref()) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn refused_address_is_reported_and_the_next_is_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
        let good = listener.local_addr().expect("address");
        let closed = {
            let gone = TcpListener::bind("127.0.0.1:0").expect("listener");
            gone.local_addr().expect("address")
        };
        let dial = Dial { attempts: 1, ..Dial::default() };
        let mut failures = Vec::new();
        let (_, address) = dial
            .connect(
                &[closed, good],
                &mut |address, error| {
                    failures.extend(error.map(|e| (*address, errno_text(e))));
                },
                &mut Shortfall::default(),
            )
            .expect("second address answers");
        assert_eq!(address, good);
        assert_eq!(failures, [(closed, "Connection refused".to_owned())]);
    }

    /// Covers: ssh -B; ssh_config BindInterface
    #[test]
    fn bind_interface_address_is_used() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
        let target = listener.local_addr().expect("address");
        let dial = |interface: &str| {
            let dial = Dial { attempts: 1, interface: Some(interface.to_owned()), ..Dial::default() };
            dial.connect(&[target], &mut |_, _| {}, &mut Shortfall::default())
                .map(|(socket, _)| socket.local_addr().expect("address").ip())
        };
        assert_eq!(dial("lo").ok(), "127.0.0.1".parse().ok());
        let error = dial("no-such-interface").expect_err("there is none");
        let error = UnusableSource::of(&error).expect("about the source");
        assert_eq!(error.to_string(), "getifaddrs: no-such-interface: no suitable addresses");
    }

    #[test]
    fn bind_address_is_used() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listener");
        let target = listener.local_addr().expect("address");
        let dial = Dial { attempts: 1, bind: Some("127.0.0.2".to_owned()), ..Dial::default() };
        let (socket, _) =
            dial.connect(&[target], &mut |_, _| {}, &mut Shortfall::default()).expect("connects");
        assert_eq!(
            socket.local_addr().expect("address").ip(),
            "127.0.0.2".parse::<IpAddr>().expect("address")
        );
    }
}
