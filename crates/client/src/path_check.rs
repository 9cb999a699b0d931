//! Detection of a lost path while the client waits for the server before the session.
//!
//! A login may wait for a person, at the server's end too, so silence alone is no fault. The kernel of a
//! reachable server acknowledges data and probes all the same.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use lh_driver::{Link, LinkError};
use lh_transport::Event;
use rustix::net::sockopt;

/// Silence after which the path is checked. A usual login has no such wait, so it costs no system call.
const QUIET: Duration = Duration::from_secs(5);

/// The check itself.
const LIMITS: Limits = Limits {
    idle: Duration::from_secs(5),
    interval: Duration::from_secs(5),
    count: 5,
    #[cfg(target_os = "linux")]
    unacknowledged: 30_000,
};

/// Bounds that the kernel applies to a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// Time without traffic before the first probe.
    idle: Duration,
    /// Time between two probes.
    interval: Duration,
    /// Unanswered probes that end the connection. Linux applies `unacknowledged` in its place.
    count: u32,
    /// Time after which data or probes without acknowledgement end the connection, ms; 0 is the kernel's
    /// default.
    #[cfg(target_os = "linux")]
    unacknowledged: u32,
}

impl Limits {
    /// Returns the limits of a TCP connection that the kernel probes (`TCPKeepAlive`).
    fn of(socket: BorrowedFd<'_>) -> Option<Self> {
        if !sockopt::socket_keepalive(socket).ok()? {
            return None;
        }
        Some(Self {
            idle: sockopt::tcp_keepidle(socket).ok()?,
            interval: sockopt::tcp_keepintvl(socket).ok()?,
            count: sockopt::tcp_keepcnt(socket).ok()?,
            #[cfg(target_os = "linux")]
            unacknowledged: sockopt::tcp_user_timeout(socket).ok()?,
        })
    }

    fn apply(self, socket: impl AsFd) {
        // A connection that has ended may refuse them.
        let _ = sockopt::set_tcp_keepidle(&socket, self.idle);
        let _ = sockopt::set_tcp_keepintvl(&socket, self.interval);
        let _ = sockopt::set_tcp_keepcnt(&socket, self.count);
        #[cfg(target_os = "linux")]
        let _ = sockopt::set_tcp_user_timeout(&socket, self.unacknowledged);
    }
}

/// Returns the next event by `wait`, which waits until the time in its second argument. After a while of
/// silence the kernel ends a TCP connection whose path is lost, within about half a minute.
///
/// # Errors
/// The connection is over, or `deadline` has passed.
pub(crate) fn next_event(
    link: &mut Link,
    deadline: Option<Instant>,
    mut wait: impl FnMut(&mut Link, Option<Instant>) -> Result<Event, LinkError>,
) -> Result<Event, LinkError> {
    let quiet = Instant::now() + QUIET;
    if deadline.is_some_and(|deadline| deadline <= quiet) {
        return wait(link, deadline);
    }
    match wait(link, Some(quiet)) {
        Err(LinkError::TimedOut) => {}
        result => return result,
    }
    let before = Limits::of(link.stream().read_fd());
    if before.is_some() {
        LIMITS.apply(link.stream().read_fd());
    }
    let result = wait(link, deadline);
    // At a prompt and in the session other limits apply: an interruption of the path may be longer.
    if let Some(before) = before {
        before.apply(link.stream().read_fd());
    }
    result
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let ours = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        (ours, listener.accept().expect("accepted").0)
    }

    #[test]
    fn limits_of_a_probed_connection_are_set_and_restored() {
        let (socket, _theirs) = connected();
        assert_eq!(Limits::of(socket.as_fd()), None, "TCPKeepAlive no");
        lh_sys::socket::set_keepalive(&socket, true).expect("probed");
        let before = Limits::of(socket.as_fd()).expect("limits");
        LIMITS.apply(&socket);
        assert_eq!(Limits::of(socket.as_fd()), Some(LIMITS));
        before.apply(&socket);
        assert_eq!(Limits::of(socket.as_fd()), Some(before));
    }

    #[test]
    fn pipes_and_local_sockets_have_no_limits() {
        let (socket, _theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let (pipe, _end) = std::io::pipe().expect("a pipe");
        assert_eq!((Limits::of(socket.as_fd()), Limits::of(pipe.as_fd())), (None, None));
    }
}
