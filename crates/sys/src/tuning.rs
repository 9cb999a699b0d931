//! What users set about a TCP connection: receive buffer, congestion control, pacing.
#![expect(unsafe_code, reason = "the pacing rate is offered by the C library alone")]

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::net::sockopt;

/// What is to be set; what is `None` stays as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Bytes of receive buffer (`TcpRcvBuf`). The kernel stops to let it grow by itself then.
    pub receive_buffer: Option<u32>,
    /// The name of a congestion control (`TcpCongestion`).
    pub congestion: Option<String>,
    /// The most that is sent, bytes per second (`TcpPacing`).
    pub pacing: Option<u64>,
}

/// Something that the kernel did not do. `Display` is one line, without the host.
#[derive(Debug)]
pub enum Refused {
    /// The receive buffer is smaller than it was asked for.
    ReceiveBuffer {
        /// Bytes asked for.
        wanted: u32,
        /// Bytes there are.
        got: u64,
    },
    /// There is no such congestion control, or not for this user.
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
                Some(Errno::PERM) => {
                    write!(f, "TcpCongestion {name}: not in net.ipv4.tcp_allowed_congestion_control")
                }
                _ => write!(f, "TcpCongestion {name}: {error}"),
            },
            Self::Pacing(error) => write!(f, "TcpPacing: {error}"),
        }
    }
}

impl Tuning {
    /// Sets it, as far as that goes, and says what did not. Nothing is done to what is no internet socket. A receive buffer
    /// set before connecting counts for the window scale as well.
    pub fn apply(&self, socket: impl AsFd) -> Vec<Refused> {
        let mut refused = Vec::new();
        if !crate::socket::is_internet(&socket) {
            return refused;
        }
        if let Some(wanted) = self.receive_buffer {
            let got = set_receive_buffer(&socket, wanted);
            if got < u64::from(wanted) {
                refused.push(Refused::ReceiveBuffer { wanted, got });
            }
        }
        if let Some(name) = &self.congestion
            && let Err(error) = sockopt::set_tcp_congestion(&socket, name)
        {
            refused.push(Refused::Congestion(name.clone(), error.into()));
        }
        if let Some(rate) = self.pacing
            && let Err(error) = set_pacing(&socket, rate)
        {
            refused.push(Refused::Pacing(error));
        }
        refused
    }
}

/// Returns the bytes there are now for data. The kernel counts its own overhead as well and so doubles what it is told.
fn set_receive_buffer(socket: &impl AsFd, bytes: u32) -> u64 {
    let size = bytes as usize;
    let there_are = || sockopt::socket_recv_buffer_size(socket).map_or(0, |size| size as u64 / 2);
    let _ = sockopt::set_socket_recv_buffer_size(socket, size);
    if there_are() < u64::from(bytes) {
        // Root may have more than the system's limit for everybody.
        let _ = sockopt::set_socket_recv_buffer_size_force(socket, size);
    }
    there_are()
}

/// `SO_MAX_PACING_RATE`, bytes per second.
fn set_pacing(socket: &impl AsFd, rate: u64) -> io::Result<()> {
    // Linux takes 32 or 64 bits here.
    set_option(socket, libc::SO_MAX_PACING_RATE, rate)
}

/// Sets an option of [`libc::SOL_SOCKET`] that is a number.
fn set_option<N: Copy + Into<u64>>(socket: &impl AsFd, option: libc::c_int, value: N) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<N>()).unwrap_or(4);
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open for the length of the call, and the pointer is to a number that lives as long, with its length.
    let result = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel make room for `bytes` to be received on a TCP connection from now on, and go on fitting it to the path.
///
/// It begins with 64 KiB and makes that larger when more is read in a round trip than in any before. Where a sender's whole window
/// comes in one piece, as it may when nothing spreads it out, there is no room to grant more while the piece lies there, and the next
/// one is no longer: such connections were seen to stay at 48 KiB for many seconds. Asking to be woken for so many bytes only
/// (`SO_RCVLOWAT`) makes the room, and not asking any more leaves it. A buffer whose size somebody has set (`TcpRcvBuf`) stays
/// as it is.
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

/// A limit that nobody reaches.
const UNREACHED: u64 = u64::MAX - 1;

/// Has the kernel spread out what it sends on a TCP connection over the round trip, where nothing else says how fast it may send.
///
/// A socket with any limit is paced: TCP sends at the rate that follows from its window and the round trip (twice that during slow
/// start), and not a window at once where a window has become free at once, as after a pause. This is what `fq` does for all sockets
/// of a host that has it.
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
    sockopt::tcp_congestion(socket).ok()
}

/// Largest receive and send buffer that the kernel's autotuning gives a TCP socket, bytes: the third number of
/// `net.ipv4.tcp_rmem` and of `net.ipv4.tcp_wmem`. `None` where /proc cannot be read.
pub fn buffer_limits() -> (Option<u64>, Option<u64>) {
    let third = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
        text.split_whitespace().nth(2)?.parse().ok()
    };
    (third("tcp_rmem"), third("tcp_wmem"))
}

/// Has a TCP connection that does not leave this machine do without a congestion control that paces.
///
/// Such a one (BBR, where the administrator made it the default) sends at a rate of its own reckoning, in small pieces by a timer. To
/// another program of the same machine that takes a third of the speed and twice the processor, and there is no path to be gentle
/// to. To be called before the socket connects or listens, with the address it connects to or listens on: one that has been paced once
/// stays so. Those who connect to a listener have its congestion control.
pub fn unpaced_within_machine(socket: impl AsFd, address: &SocketAddr) {
    let paces = || sockopt::tcp_congestion(&socket).is_ok_and(|name| name.starts_with("bbr"));
    if address.ip().to_canonical().is_loopback() && paces() {
        // The one that every kernel has and every user may ask for; without it all is as it was.
        let _ = sockopt::set_tcp_congestion(&socket, "reno");
    }
}

/// The most that is sent on this socket, bytes per second; `None` without a limit or where the kernel does not say.
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

/// True for a socket of multipath TCP, in use as such or fallen back to plain TCP.
pub fn is_multipath(socket: impl AsFd) -> bool {
    matches!(sockopt::socket_protocol(socket), Ok(Some(rustix::net::ipproto::MPTCP)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn nothing_is_paced_that_stays_within_the_machine() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let home = listener.local_addr().unwrap();
        let default = sockopt::tcp_congestion(&listener).unwrap();
        let paces = sockopt::set_tcp_congestion(&listener, "bbr").is_ok();
        let before = sockopt::tcp_congestion(&listener).unwrap();
        unpaced_within_machine(&listener, &"192.0.2.1:22".parse().unwrap());
        assert_eq!(sockopt::tcp_congestion(&listener).unwrap(), before, "beyond it nothing changes");
        unpaced_within_machine(&listener, &home);
        let after = sockopt::tcp_congestion(&listener).unwrap();
        assert_eq!(after, if paces { "reno".to_owned() } else { default });
        let _client = std::net::TcpStream::connect(home).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(sockopt::tcp_congestion(&accepted).unwrap(), after, "those who connect have it too");
        let mapped: SocketAddr = format!("[::ffff:127.0.0.1]:{}", home.port()).parse().unwrap();
        unpaced_within_machine(&accepted, &mapped);
    }

    #[test]
    fn the_kernel_says_what_was_set_and_we_what_was_not() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(pacing(&socket), None);
        assert!(!is_multipath(&socket));
        assert!(Tuning::default().apply(&socket).is_empty());
        spread_out(&socket).unwrap();
        assert_eq!(pacing(&socket), None, "that is no limit");
        let tuning = Tuning {
            receive_buffer: Some(64 << 10),
            congestion: Some("reno".to_owned()),
            pacing: Some(12_500_000),
        };
        assert!(tuning.apply(&socket).is_empty());
        assert_eq!(sockopt::socket_recv_buffer_size(&socket), Ok(128 << 10));
        assert_eq!(sockopt::tcp_congestion(&socket).unwrap(), "reno");
        assert_eq!(pacing(&socket), Some(12_500_000));
        spread_out(&socket).unwrap();
        assert_eq!(pacing(&socket), Some(12_500_000), "a limit stays what it is");

        // What was set stays, and a reader is woken by the first byte as ever.
        make_room(&socket, 4 << 20).unwrap();
        assert_eq!(sockopt::socket_recv_buffer_size(&socket), Ok(128 << 10));

        let wrong = Tuning { congestion: Some("no-such-thing".to_owned()), ..Tuning::default() };
        let lines: Vec<String> = wrong.apply(&socket).iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("TcpCongestion no-such-thing: "), "{lines:?}");
        let refused = Refused::ReceiveBuffer { wanted: 8 << 20, got: 208 << 10 };
        assert_eq!(refused.to_string(), "TcpRcvBuf 8192K: the system allows 208K (net.core.rmem_max)");
        // Pipes have none of this, and nobody needs to be told.
        assert!(tuning.apply(crate::fd::null().unwrap()).is_empty());
    }

    #[test]
    fn room_is_made_for_what_comes_and_one_byte_is_enough_to_wake() {
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
        // No connection: nothing to do.
        make_room(crate::fd::null().unwrap(), 1 << 20).unwrap();
    }
}
