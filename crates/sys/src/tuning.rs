//! User settings of a TCP connection: receive buffer, congestion control, pacing.
#![expect(unsafe_code, reason = "the pacing rate is offered by the C library alone")]

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::net::sockopt;

/// Settings to apply; `None` keeps the kernel's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Receive buffer, bytes (`TcpRcvBuf`). It ends the kernel's automatic growth.
    pub receive_buffer: Option<u32>,
    /// Name of a congestion control (`TcpCongestion`).
    pub congestion: Option<String>,
    /// Maximum send rate, bytes per second (`TcpPacing`).
    pub pacing: Option<u64>,
    /// Largest segment in both directions, bytes, of a connection that is not made yet (`TCP_MAXSEG`). Has no
    /// effect on systems other than Linux.
    pub segment: Option<u16>,
}

/// A setting that the kernel did not apply. `Display` is one line, without the host.
#[derive(Debug)]
pub enum Refused {
    /// The receive buffer is smaller than requested.
    ReceiveBuffer {
        /// Requested size in bytes.
        wanted: u32,
        /// Size that the kernel applied, in bytes.
        got: u64,
    },
    /// The congestion control does not exist, or is not permitted to this user.
    Congestion(String, io::Error),
    /// The rate cannot be set.
    Pacing(io::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReceiveBuffer { wanted, got } => {
                let (wanted, got) = (wanted / 1024, got / 1024);
                write!(f, "TcpRcvBuf {wanted}K: the system allows {got}K (net.core.rmem_max)")
            }
            Self::Congestion(name, error) => match Errno::from_io_error(error) {
                Some(Errno::NOENT) => write!(f, "TcpCongestion {name}: the system has no such algorithm"),
                Some(Errno::PERM) => write!(
                    f,
                    "TcpCongestion {name}: not in net.ipv4.tcp_allowed_congestion_control, \
                     or the route has a locked congctl"
                ),
                _ => write!(f, "TcpCongestion {name}: {error}"),
            },
            Self::Pacing(error) => write!(f, "TcpPacing: {error}"),
        }
    }
}

impl Tuning {
    /// Applies the settings as far as possible and returns the failures. Does nothing to other than internet
    /// sockets. A receive buffer set before connecting also determines the window scale.
    pub fn apply(&self, socket: impl AsFd) -> Vec<Refused> {
        let mut refused = Vec::new();
        if !crate::socket::is_internet(&socket) {
            return refused;
        }
        if let Some(wanted) = self.receive_buffer {
            let got = set_receive_buffer(&socket, wanted);
            #[cfg(target_os = "linux")]
            raise_window_clamp(&socket, got.min(u64::from(wanted)));
            if got < u64::from(wanted) {
                refused.push(Refused::ReceiveBuffer { wanted, got });
            }
        }
        if let Some(name) = &self.congestion
            && let Err(error) = set_congestion(&socket, name)
        {
            refused.push(Refused::Congestion(name.clone(), error));
        }
        #[cfg(target_os = "linux")]
        if let Some(bytes) = self.segment {
            // On failure the segments are as long as ever. Multipath TCP refuses it.
            let _ = set_tcp_option(&socket, libc::TCP_MAXSEG, bytes.into());
        }
        if let Some(rate) = self.pacing
            && let Err(error) = set_pacing(&socket, rate)
        {
            refused.push(Refused::Pacing(error));
        }
        refused
    }
}

#[cfg(any(target_os = "linux", target_os = "freebsd"))]
fn set_congestion(socket: &impl AsFd, name: &str) -> io::Result<()> {
    Ok(sockopt::set_tcp_congestion(socket, name)?)
}

#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
fn set_congestion(_: &impl AsFd, _: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the bytes now available for data. Linux doubles the requested size, because it counts its own
/// overhead as well.
fn set_receive_buffer(socket: &impl AsFd, bytes: u32) -> u64 {
    let size = bytes as usize;
    let for_data = if cfg!(target_os = "linux") { 2 } else { 1 };
    let there_are = || sockopt::socket_recv_buffer_size(socket).map_or(0, |size| size as u64 / for_data);
    let _ = sockopt::set_socket_recv_buffer_size(socket, size);
    #[cfg(target_os = "linux")]
    if there_are() < u64::from(bytes) {
        // Root may exceed the system-wide limit.
        let _ = sockopt::set_socket_recv_buffer_size_force(socket, size);
    }
    there_are()
}

/// Sets the receive buffer of a TCP connection to `bytes`, where the system permits this size: root may set
/// any, others as much as `net.core.rmem_max` allows. Otherwise the kernel's buffer stays, and grows by
/// itself. Returns whether the size is set.
#[cfg(target_os = "linux")]
pub fn bound_receive_buffer(socket: impl AsFd, bytes: u32) -> bool {
    if !crate::socket::is_internet(&socket) {
        return false;
    }
    let size = bytes as usize;
    let permits = || {
        setting("core/rmem_max")
            .and_then(|most| most.trim().parse().ok())
            .is_some_and(|most: usize| size <= most)
    };
    // A size that the system cuts would end the growth of a buffer that is too small.
    let is_set = sockopt::set_socket_recv_buffer_size_force(&socket, size).is_ok()
        || (permits() && sockopt::set_socket_recv_buffer_size(&socket, size).is_ok());
    if is_set {
        raise_window_clamp(&socket, u64::from(bytes));
    }
    is_set
}

/// Leaves the buffer to the system: only Linux tells which sizes it permits.
#[cfg(not(target_os = "linux"))]
pub fn bound_receive_buffer(_: impl AsFd, _: u32) -> bool {
    false
}

/// Lets the window of an accepted connection fill a buffer that has been set.
///
/// The kernel bounds the window when the connection begins, by the buffer of that time: 64 KiB. With a buffer
/// of fixed size it never raises that bound, so the window stays there however large the buffer is.
#[cfg(target_os = "linux")]
fn raise_window_clamp(socket: &impl AsFd, bytes: u64) {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(i32::MAX.unsigned_abs());
    // On failure the window stays at its first size. Multipath TCP refuses it.
    let _ = set_tcp_option(socket, libc::TCP_WINDOW_CLAMP, bytes);
}

/// `SO_MAX_PACING_RATE`, bytes per second.
#[cfg(target_os = "linux")]
fn set_pacing(socket: &impl AsFd, rate: u64) -> io::Result<()> {
    // Linux accepts 32 or 64 bits here.
    set_option(socket, libc::SO_MAX_PACING_RATE, rate)
}

/// Fails: only Linux has `SO_MAX_PACING_RATE`.
#[cfg(not(target_os = "linux"))]
fn set_pacing(_: &impl AsFd, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sets a numeric option of [`libc::SOL_SOCKET`].
fn set_option<N: Copy + Into<u64>>(socket: &impl AsFd, option: libc::c_int, value: N) -> io::Result<()> {
    set_level_option(socket, libc::SOL_SOCKET, option, value)
}

/// Sets a numeric option of TCP.
#[cfg(target_os = "linux")]
fn set_tcp_option(socket: &impl AsFd, option: libc::c_int, value: u32) -> io::Result<()> {
    set_level_option(socket, libc::IPPROTO_TCP, option, value)
}

fn set_level_option<N: Copy + Into<u64>>(
    socket: &impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: N,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<N>()).unwrap_or(4);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open during the call, and the pointer refers to a live number, with its
    // length.
    let result = unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel provide receive space for `bytes` on a TCP connection now, without ending its automatic
/// growth.
///
/// The kernel starts with 64 KiB and enlarges that when one round trip brings more data than any before. A
/// sender that is not paced may send its whole window in one burst. While that burst is queued, there is no
/// space to grant a larger window, so the next burst is no longer: such connections stayed at 48 KiB for many
/// seconds. Setting `SO_RCVLOWAT` (the number of bytes at which a reader is woken) provides the space, and
/// resetting the option keeps it. A buffer whose size the user has set (`TcpRcvBuf`) stays unchanged.
///
/// # Errors
/// The kernel does not know the option.
pub fn make_room(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    if !crate::socket::is_internet(&socket) {
        return Ok(());
    }
    let room = set_option(&socket, libc::SO_RCVLOWAT, bytes.min(i32::MAX.unsigned_abs()));
    set_option(&socket, libc::SO_RCVLOWAT, 1_u32).and(room)
}

/// A pacing limit that is never reached.
const UNREACHED: u64 = u64::MAX - 1;

/// Makes the kernel spread the packets of a TCP connection over the round trip, where no other rate limit is
/// set.
/// A socket with any limit is paced: TCP sends at the rate of a window in each round trip (twice that during
/// slow start). Without pacing it would send a whole window at once after a pause. `fq` paces all sockets of
/// a host that uses it.
///
/// # Errors
/// The kernel does not know the option.
pub fn spread_out(socket: impl AsFd) -> io::Result<()> {
    if pacing(&socket).is_none() && crate::socket::is_internet(&socket) {
        set_pacing(&socket, UNREACHED)?;
    }
    Ok(())
}

/// Name of the congestion control of a TCP socket, such as `cubic`; `None` for other sockets.
pub fn congestion_control(socket: impl AsFd) -> Option<String> {
    crate::socket::congestion(socket)
}

/// Largest receive and send buffer that the kernel's autotuning gives a TCP socket, bytes: the third number
/// of `net.ipv4.tcp_rmem` and of `net.ipv4.tcp_wmem`. `None` where /proc cannot be read.
pub fn buffer_limits() -> (Option<u64>, Option<u64>) {
    let third = |name| setting(name)?.split_whitespace().nth(2)?.parse().ok();
    (third("ipv4/tcp_rmem"), third("ipv4/tcp_wmem"))
}

/// Reads a network setting of the kernel, such as `core/rmem_max`. `None` where /proc cannot be read.
fn setting(name: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/sys/net/{name}")).ok()
}

/// Replaces a pacing congestion control on a TCP connection within this machine.
///
/// Such a control (BBR, where the administrator made it the default) sends at an estimated rate, in small
/// pieces by a timer. Within one machine that costs a third of the speed and twice the CPU time, and there is
/// no path to protect. Call it before the socket connects or listens, with the address it connects to or
/// listens on: a socket that has been paced once stays so. Accepted connections inherit the listener's
/// congestion control.
pub fn unpaced_within_machine(socket: impl AsFd, address: &SocketAddr) {
    let paces = || congestion_control(&socket).is_some_and(|name| name.starts_with("bbr"));
    if address.ip().to_canonical().is_loopback() && paces() {
        // Every kernel has `reno`, and every user may select it. On failure the control stays unchanged.
        let _ = set_congestion(&socket, "reno");
    }
}

/// Maximum send rate of this socket, bytes per second; `None` without a limit or where the kernel does not
/// report it.
#[cfg(target_os = "linux")]
pub fn pacing(socket: impl AsFd) -> Option<u64> {
    let mut rate = 0_u64;
    let mut length = libc::socklen_t::try_from(size_of::<u64>()).ok()?;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes, which is the size of the u64 behind the pointer.
    let status = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, (&raw mut rate).cast(), &mut length)
    };
    (status == 0 && rate < UNREACHED && rate != 0).then_some(rate)
}

/// Other systems have no such limit.
#[cfg(not(target_os = "linux"))]
pub fn pacing(_: impl AsFd) -> Option<u64> {
    None
}

/// True for a multipath TCP socket, whether it is in use as such or has fallen back to plain TCP.
#[cfg(target_os = "linux")]
pub fn is_multipath(socket: impl AsFd) -> bool {
    matches!(sockopt::socket_protocol(socket), Ok(Some(rustix::net::ipproto::MPTCP)))
}

/// Multipath TCP is supported on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn is_multipath(_: impl AsFd) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn connections_within_the_machine_are_not_paced() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let home = listener.local_addr().unwrap();
        let default = sockopt::tcp_congestion(&listener).unwrap();
        let paces = sockopt::set_tcp_congestion(&listener, "bbr").is_ok();
        let before = sockopt::tcp_congestion(&listener).unwrap();
        unpaced_within_machine(&listener, &"192.0.2.1:22".parse().unwrap());
        assert_eq!(sockopt::tcp_congestion(&listener).unwrap(), before, "other addresses keep the default");
        unpaced_within_machine(&listener, &home);
        let after = sockopt::tcp_congestion(&listener).unwrap();
        assert_eq!(after, if paces { "reno".to_owned() } else { default });
        let _client = std::net::TcpStream::connect(home).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(sockopt::tcp_congestion(&accepted).unwrap(), after, "accepted connections inherit it");
        let mapped: SocketAddr = format!("[::ffff:127.0.0.1]:{}", home.port()).parse().unwrap();
        unpaced_within_machine(&accepted, &mapped);
    }

    #[test]
    fn settings_apply_and_failures_are_reported() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(pacing(&socket), None);
        assert!(!is_multipath(&socket));
        assert!(Tuning::default().apply(&socket).is_empty());
        spread_out(&socket).unwrap();
        assert_eq!(pacing(&socket), None, "the unreachable limit counts as none");
        let tuning = Tuning {
            receive_buffer: Some(64 << 10),
            congestion: Some("reno".to_owned()),
            pacing: Some(12_500_000),
            segment: None,
        };
        assert!(tuning.apply(&socket).is_empty());
        assert_eq!(sockopt::socket_recv_buffer_size(&socket), Ok(128 << 10));
        assert_eq!(sockopt::tcp_congestion(&socket).unwrap(), "reno");
        assert_eq!(pacing(&socket), Some(12_500_000));
        spread_out(&socket).unwrap();
        assert_eq!(pacing(&socket), Some(12_500_000), "an existing limit stays");

        // The configured size stays, and the first byte still wakes a reader.
        make_room(&socket, 4 << 20).unwrap();
        assert_eq!(sockopt::socket_recv_buffer_size(&socket), Ok(128 << 10));

        let wrong = Tuning { congestion: Some("no-such-thing".to_owned()), ..Tuning::default() };
        let lines: Vec<String> = wrong.apply(&socket).iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("TcpCongestion no-such-thing: "), "{lines:?}");
        let refused = Refused::ReceiveBuffer { wanted: 8 << 20, got: 208 << 10 };
        assert_eq!(refused.to_string(), "TcpRcvBuf 8192K: the system allows 208K (net.core.rmem_max)");
        // Settings do not apply to other descriptors, and that is no failure.
        assert!(tuning.apply(crate::fd::null().unwrap()).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn segments_are_bounded_in_both_directions() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = crate::socket::stream(rustix::net::AddressFamily::INET).unwrap();
        let tuning = Tuning { segment: Some(1220), ..Tuning::default() };
        assert!(tuning.apply(&near).is_empty());
        rustix::fs::fcntl_setfl(&near, rustix::fs::OFlags::empty()).unwrap();
        rustix::net::connect(&near, &listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let segment = |info: Option<crate::tcp_info::TcpInfo>| info.unwrap().get("snd_mss").unwrap();
        for (end, bytes) in [
            ("near", segment(crate::tcp_info::TcpInfo::of(&near))),
            ("far", segment(crate::tcp_info::TcpInfo::of(&far))),
        ] {
            assert!((500..=1220).contains(&bytes), "{end}: {bytes}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn window_of_an_accepted_connection_fills_its_set_buffer() {
        let clamp = |socket: &std::net::TcpStream| {
            let (mut bytes, mut length) = (0_u32, libc::socklen_t::try_from(size_of::<u32>()).unwrap());
            let fd = socket.as_raw_fd();
            let option = libc::TCP_WINDOW_CLAMP;
            // SAFETY: the kernel writes at most `length` bytes, which is the size of the u32.
            let status = unsafe {
                libc::getsockopt(fd, libc::IPPROTO_TCP, option, (&raw mut bytes).cast(), &raw mut length)
            };
            assert_eq!(status, 0);
            u64::from(bytes)
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let before = clamp(&far);
        // No less than any system's `net.core.rmem_max` has been by default.
        let tuning = Tuning { receive_buffer: Some(200 << 10), ..Tuning::default() };
        assert!(tuning.apply(&far).is_empty());
        assert!(clamp(&far) >= 200 << 10, "the window may grow to {} (to {before} before)", clamp(&far));
        assert!(bound_receive_buffer(&far, 205 << 10));
        assert!(clamp(&far) >= 205 << 10, "the window may grow to {}", clamp(&far));
        assert_eq!(sockopt::socket_recv_buffer_size(&far), Ok(410 << 10));
        assert!(!bound_receive_buffer(crate::fd::null().unwrap(), 1 << 20));
    }

    #[test]
    fn receive_space_grows_and_one_byte_still_wakes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let before = sockopt::socket_recv_buffer_size(&far).unwrap();
        make_room(&far, 2 << 20).unwrap();
        let after = sockopt::socket_recv_buffer_size(&far).unwrap();
        assert!(after >= 2 << 20 && after > before, "{before} {after}");
        std::io::Write::write_all(&mut near, b"x").unwrap();
        let mut ready = [rustix::event::PollFd::new(&far, rustix::event::PollFlags::IN)];
        let second = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut ready, Some(&second)).unwrap(), 1);
        // Not a connection: no effect.
        make_room(crate::fd::null().unwrap(), 1 << 20).unwrap();
    }
}
