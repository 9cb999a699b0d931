//! Opens the listening sockets.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;

use lh_config::ServerConfig;
use lh_config::enums::AddressFamily;
use rustix::net::{
    AddressFamily as Family, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt,
};

use super::options::ListenError;
use crate::log::{Log, error, info};

/// Length of the queue of connections that wait to be accepted. When it is full, the kernel drops further
/// ones' packets, and each client retries after 1, 3, 7 and 15 seconds. With 128, as in OpenSSH, a thousand
/// simultaneous logins took 15 seconds where the work takes 5. The system's net.core.somaxconn (usually 4096)
/// limits it further.
const BACKLOG: i32 = 4096;

/// Listens on every address of the configuration. Failures are logged; the function fails only when no
/// address is left. Sockets in `kept` are used for their addresses; those without an address in the
/// configuration are closed.
pub(super) fn all(
    config: &ServerConfig,
    mut kept: Vec<OwnedFd>,
    log: &Log,
) -> Result<Vec<OwnedFd>, ListenError> {
    let mut sockets = Vec::new();
    // With port 0 the kernel chooses a port for the first address, and the other addresses use it too.
    let mut chosen = None;
    for (host, port) in config.listen_endpoints() {
        let addresses: Vec<SocketAddr> = match (host.as_str(), port).to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(problem) => {
                error!(log, "bad addr or host: {host} ({problem})");
                continue;
            }
        };
        for mut address in addresses {
            let wanted = match config.address_family.value {
                AddressFamily::Any => true,
                AddressFamily::Inet => address.is_ipv4(),
                AddressFamily::Inet6 => address.is_ipv6(),
            };
            if !wanted {
                continue;
            }
            if let (0, Some(port)) = (port, chosen) {
                address.set_port(port);
            }
            let multipath = config.use_mptcp.value;
            let again = take_kept(&mut kept, address, multipath);
            match again.map_or_else(|| one(address, multipath, log), Ok) {
                Ok((socket, bound)) => {
                    if port == 0 {
                        chosen.get_or_insert(bound.port());
                    }
                    info!(log, "Server listening on {} port {}.", bound.ip(), bound.port());
                    sockets.push(socket);
                }
                // A host without IPv6 is no error.
                Err(problem)
                    if problem.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {}
                Err(problem) => {
                    let text = lh_sys::errno_text(&problem);
                    error!(log, "Bind to port {} on {} failed: {text}.", address.port(), address.ip());
                }
            }
        }
    }
    if sockets.is_empty() { Err(ListenError::NoAddress) } else { Ok(sockets) }
}

/// Takes the socket of an address from the open ones. A socket of the other protocol (TCP, multipath TCP) is
/// closed, so that the address is free.
fn take_kept(kept: &mut Vec<OwnedFd>, address: SocketAddr, multipath: bool) -> Option<(OwnedFd, SocketAddr)> {
    let is_meant = |bound: SocketAddr| {
        bound.ip() == address.ip() && (address.port() == 0 || bound.port() == address.port())
    };
    let at = kept.iter().position(|socket| lh_sys::socket::local_address(socket).is_some_and(is_meant))?;
    let socket = kept.swap_remove(at);
    let is_multipath = sockopt::socket_protocol(&socket).is_ok_and(|is| is == Some(ipproto::MPTCP));
    // A plain TCP socket stays, because the kernel may not support multipath TCP.
    if is_multipath && !multipath {
        return None;
    }
    let bound = lh_sys::socket::local_address(&socket)?;
    Some((socket, bound))
}

fn one(address: SocketAddr, multipath: bool, log: &Log) -> io::Result<(OwnedFd, SocketAddr)> {
    let family = if address.is_ipv4() { Family::INET } else { Family::INET6 };
    // Non-blocking, because a connection may be reset between poll and accept.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let multipath = multipath.then(|| socket_with(family, SocketType::STREAM, flags, Some(ipproto::MPTCP)));
    let socket = match multipath {
        Some(Ok(socket)) => socket,
        wanted => {
            if let Some(Err(problem)) = wanted {
                error!(log, "UseMPTCP: {problem}; continuing with TCP.");
            }
            socket_with(family, SocketType::STREAM, flags, None)?
        }
    };
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    lh_sys::tuning::unpaced_within_machine(&socket, &address);
    listen(&socket, BACKLOG)?;
    let bound = lh_sys::socket::local_address(&socket).unwrap_or(address);
    Ok((socket, bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Level;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_chooses_and_the_line_says_what() {
        let log = Log::lines(Level::Info);
        let mut config = crate::testing::config("ListenAddress 127.0.0.1\n");
        config.settings.port.force(lh_config::server_values::Ports(vec![0]));
        let sockets = all(&config, Vec::new(), &log).unwrap();
        let bound = lh_sys::socket::local_address(&sockets[0]).unwrap();
        assert_eq!(log.taken(), [format!("Server listening on 127.0.0.1 port {}.", bound.port())]);
        TcpStream::connect(bound).unwrap();
        // The port is in use: the reason is logged, and no address is left to listen on.
        config.settings.port.force(lh_config::server_values::Ports(vec![bound.port()]));
        assert!(matches!(all(&config, Vec::new(), &log), Err(ListenError::NoAddress)));
        let expected =
            format!("error: Bind to port {} on 127.0.0.1 failed: Address already in use.", bound.port());
        assert_eq!(log.taken(), [expected]);
        // After a restart, the kept socket stays, and a socket whose address was removed is closed.
        let other = TcpListener::bind("127.0.0.2:0").unwrap();
        let gone = other.local_addr().unwrap();
        let waiting = TcpStream::connect(bound).unwrap();
        let kept = sockets.into_iter().chain([OwnedFd::from(other)]).collect();
        let sockets = all(&config, kept, &log).unwrap();
        assert_eq!(sockets.len(), 1);
        let accepted = rustix::net::accept(&sockets[0]).unwrap();
        assert!(lh_sys::socket::peer_address(&accepted).is_some());
        drop(waiting);
        crate::testing::wait_until(|| TcpStream::connect(gone).is_err());
    }
}
