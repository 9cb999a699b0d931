//! Options and addresses of TCP sockets.
#![expect(unsafe_code, reason = "an option is offered by the C library alone")]

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SendFlags, SocketAddrAny, SocketType, getpeername, getsockname};

use crate::tcp_info::TcpInfo;

/// Flag for sending to a closed peer without SIGPIPE. macOS has no such flag: there the programs ignore
/// SIGPIPE.
#[cfg(not(target_os = "macos"))]
pub const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
/// Flag for sending to a closed peer without SIGPIPE. macOS has no such flag: there the programs ignore
/// SIGPIPE.
#[cfg(target_os = "macos")]
pub const NO_SIGNAL: SendFlags = SendFlags::empty();

/// Poll flag that reports without a read that the peer has closed its end. macOS reports it only when both
/// ends are closed.
#[cfg(not(target_os = "macos"))]
pub const PEER_CLOSED: PollFlags = PollFlags::RDHUP;
/// Poll flag that reports without a read that the peer has closed its end. macOS reports it only when both
/// ends are closed.
#[cfg(target_os = "macos")]
pub const PEER_CLOSED: PollFlags = PollFlags::HUP;

/// Creates a stream socket that is non-blocking and close-on-exec.
///
/// # Errors
/// Those of socket(2).
#[cfg(not(target_os = "macos"))]
pub fn stream(family: AddressFamily) -> Result<OwnedFd, Errno> {
    use rustix::net::SocketFlags;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// Creates a stream socket that is non-blocking and close-on-exec.
///
/// # Errors
/// Those of socket(2).
#[cfg(target_os = "macos")]
pub fn stream(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(socket)
}

/// Like [`stream`], for multipath TCP.
///
/// # Errors
/// The system does not support it, or the errors of socket(2).
#[cfg(target_os = "linux")]
pub fn multipath(family: AddressFamily) -> Result<OwnedFd, Errno> {
    use rustix::net::{SocketFlags, ipproto};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::MPTCP))
}

/// Multipath TCP is supported on Linux only.
///
/// # Errors
/// `EPROTONOSUPPORT`, always.
#[cfg(not(target_os = "linux"))]
pub fn multipath(_: AddressFamily) -> Result<OwnedFd, Errno> {
    Err(Errno::PROTONOSUPPORT)
}

/// Accepts a connection; its descriptor is close-on-exec.
///
/// # Errors
/// Those of accept(2).
#[cfg(not(target_os = "macos"))]
pub fn accept(listener: impl AsFd) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
    rustix::net::acceptfrom_with(listener, rustix::net::SocketFlags::CLOEXEC)
}

/// Accepts a connection; its descriptor is close-on-exec.
///
/// # Errors
/// Those of accept(2).
#[cfg(target_os = "macos")]
pub fn accept(listener: impl AsFd) -> Result<(OwnedFd, Option<SocketAddrAny>), Errno> {
    let (socket, from) = rustix::net::acceptfrom(listener)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok((socket, from))
}

/// True for a listening Unix socket. On macOS true for every Unix socket; accepting from one that does not
/// listen fails.
pub fn is_unix_listener(socket: impl AsFd) -> bool {
    #[cfg(not(target_os = "macos"))]
    let listens = sockopt::socket_acceptconn(&socket).unwrap_or(false);
    #[cfg(target_os = "macos")]
    let listens = true;
    listens && matches!(family(&socket), Ok(AddressFamily::UNIX))
}

/// Address of the peer; an IPv4 peer on an IPv6 socket is returned as IPv4. `None` where the descriptor is
/// not a connected internet socket.
pub fn peer_address(socket: impl AsFd) -> Option<SocketAddr> {
    let address: SocketAddr = getpeername(socket).ok()??.try_into().ok()?;
    Some(canonical(address))
}

/// Local address, in the form of [`peer_address`].
pub fn local_address(socket: impl AsFd) -> Option<SocketAddr> {
    let address: SocketAddr = getsockname(socket).ok()?.try_into().ok()?;
    Some(canonical(address))
}

/// Sets `TCP_NODELAY`: SSH does its own batching.
pub fn set_nodelay(socket: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, on)?)
}

/// Limits the bytes in the kernel that have not been sent yet (`TCP_NOTSENT_LOWAT`): a socket with more is
/// not writable. Bytes that are sent but not acknowledged do not count, so the path stays full.
///
/// # Errors
/// The kernel does not know the option, as FreeBSD's does not.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub fn set_unsent_limit(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    use libc::TCP_NOTSENT_LOWAT;
    /// From `<netinet/tcp.h>`; not in the `libc` crate.
    #[cfg(target_os = "macos")]
    const TCP_NOTSENT_LOWAT: libc::c_int = 0x201;
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(4);
    // SAFETY: the descriptor is open during the call, and the pointer refers to a live c_int, with its
    // length.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_NOTSENT_LOWAT,
            (&raw const value).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// This system has no such limit.
///
/// # Errors
/// `Unsupported`.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub fn set_unsent_limit(_: impl AsFd, _: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns how many bytes the peer's TCP has not acknowledged, sent or not; the end of this direction counts
/// as one. `None` on other systems than Linux, and where the descriptor is not an internet socket.
#[cfg(target_os = "linux")]
pub fn unacknowledged(socket: impl AsFd) -> Option<usize> {
    if !is_internet(&socket) {
        return None;
    }
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open during the call, and the kernel writes one c_int.
    let status = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ as _, &raw mut bytes) };
    usize::try_from(bytes).ok().filter(|_| status == 0)
}

/// `None`: other systems do not count the end of the direction.
#[cfg(not(target_os = "linux"))]
pub fn unacknowledged(_: impl AsFd) -> Option<usize> {
    None
}

/// Returns the name of the congestion control (`TCP_CONGESTION`). `None` if the socket has none, or the
/// answer is not a name: emulators such as qemu's user mode return a number, without the final zero that
/// rustix's function requires.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
pub(crate) fn congestion(socket: impl AsFd) -> Option<String> {
    // Names have at most 16 bytes with their zero (`TCP_CA_NAME_MAX`).
    let mut name = [0_u8; 16];
    let mut length = libc::socklen_t::try_from(name.len()).ok()?;
    // SAFETY: the descriptor is open during the call, and the kernel writes at most `length` bytes, the
    // buffer's size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (result == 0).then(|| name_in(name.get(..length as usize)?)).flatten()
}

/// macOS does not name its congestion control.
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
pub(crate) fn congestion(_: impl AsFd) -> Option<String> {
    None
}

/// Returns the text before the first zero byte, if it is a valid name of a congestion control.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
fn name_in(answer: &[u8]) -> Option<String> {
    let name = answer.split(|byte| *byte == 0).next()?;
    let is_name =
        !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(byte));
    (is_name && answer.contains(&0)).then(|| String::from_utf8_lossy(name).into_owned())
}

/// Sends acknowledgements immediately, now and for a while (`TCP_QUICKACK`, whose effect ends by itself).
///
/// OpenSSH leaves Nagle's algorithm on during login: its second small packet in a row waits for our
/// acknowledgement of the first, which the kernel would delay by 40 ms. Other systems have no such option.
pub fn acknowledge_now(socket: impl AsFd) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_quickack(socket, true)?;
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
    Ok(())
}

/// Enables the kernel's probes of an idle peer (`SO_KEEPALIVE`, the `TCPKeepAlive` keyword).
pub fn set_keepalive(socket: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_socket_keepalive(socket, on)?)
}

/// Sets the type-of-service byte (DSCP in its upper six bits) of IPv4 or the traffic class of IPv6.
pub fn set_tos(socket: impl AsFd, tos: u8) -> io::Result<()> {
    match family(&socket)? {
        AddressFamily::INET6 => {
            // Takes effect for a mapped IPv4 peer; some kernels refuse it for others, which is harmless.
            let _ = sockopt::set_ip_tos(&socket, tos);
            Ok(sockopt::set_ipv6_tclass(&socket, u32::from(tos))?)
        }
        _ => Ok(sockopt::set_ip_tos(&socket, tos)?),
    }
}

/// Shortest round trip that the kernel has measured on this connection (`TCP_INFO`); `None` where it reports
/// none.
pub fn round_trip(socket: impl AsFd) -> Option<Duration> {
    let micros = u32::try_from(TcpInfo::of(socket)?.get("min_rtt")?).ok()?;
    // All ones before the first measurement.
    (micros != u32::MAX && micros > 0).then(|| Duration::from_micros(micros.into()))
}

/// True when the descriptor is an IPv4 or IPv6 socket; with `-i` a server may get any kind.
pub fn is_internet(socket: impl AsFd) -> bool {
    matches!(family(&socket), Ok(AddressFamily::INET | AddressFamily::INET6))
}

/// The address family of a socket.
fn family(socket: &impl AsFd) -> io::Result<AddressFamily> {
    // macOS has no such option, but there a socket without an address returns an empty one of its family.
    #[cfg(not(target_os = "macos"))]
    return Ok(sockopt::socket_domain(socket)?);
    #[cfg(target_os = "macos")]
    return Ok(getsockname(socket)?.address_family());
}

/// Writes an IPv4 address inside an IPv6 one as IPv4; others keep their scope.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ std::net::IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        std::net::IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn unsent_limit_bounds_the_send_queue() {
        use std::io::Write;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _server = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        let fill = |client: &TcpStream| {
            let (mut client, mut total) = (client, 0);
            while let Ok(n) = client.write(&[0; 16 << 10]) {
                total += n;
            }
            total
        };
        set_unsent_limit(&client, 64 << 10).unwrap();
        let with = fill(&client);
        set_unsent_limit(&client, u32::MAX).unwrap();
        assert!(fill(&client) > 256 << 10, "without the limit more than {with} fits");
    }

    #[test]
    fn only_whole_names_of_congestion_controls_count() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(congestion(&listener), sockopt::tcp_congestion(&listener).ok());
        assert_eq!(name_in(b"cubic\0\0\0"), Some("cubic".to_owned()));
        for answer in [&b""[..], b"\0", b"cubi", b"\x7f\0", b"a b\0"] {
            assert_eq!(name_in(answer), None, "{answer:?}");
        }
    }

    #[test]
    fn options_and_addresses_of_a_connection() {
        for host in ["127.0.0.1", "::1"] {
            let Ok(listener) = TcpListener::bind((host, 0)) else {
                let why = format!("no {host} here");
                lh_testkit::skip_unavailable("options_and_addresses_of_a_connection", &why);
                continue;
            };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            assert_eq!(peer_address(&server), Some(client.local_addr().unwrap()));
            assert_eq!(local_address(&server), Some(client.peer_addr().unwrap()));
            set_nodelay(&server, true).unwrap();
            assert!(server.nodelay().unwrap());
            acknowledge_now(&server).unwrap();
            set_unsent_limit(&server, 128 << 10).unwrap();
            set_keepalive(&server, true).unwrap();
            assert!(sockopt::socket_keepalive(&server).unwrap());
            set_tos(&server, 0xb8).unwrap();
            let round_trip = round_trip(&client).unwrap();
            assert!(round_trip < Duration::from_secs(5), "{round_trip:?}");
        }
        assert_eq!(peer_address(crate::fd::null().unwrap()), None);
        assert_eq!(congestion(crate::fd::null().unwrap()), None);
        assert_eq!(round_trip(crate::fd::null().unwrap()), None);
    }
}
