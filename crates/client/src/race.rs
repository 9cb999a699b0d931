//! Parallel connection attempts (RFC 8305, "Happy Eyeballs"; HPN-SSH's `HappyEyes`).
//!
//! Address families alternate (section 4), each attempt gets a head start over the next (section 5), and a
//! failure starts the next one at once. The first established connection wins. The resolver queries both
//! families by itself.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;

/// A started attempt: its socket.
pub(crate) enum Begun {
    /// The connection is established.
    Connected(OwnedFd),
    /// The socket becomes writable when the attempt succeeds or fails.
    UnderWay(OwnedFd),
}

/// Callback for each attempt (`None`) and each failure.
pub(crate) type AttemptCallback<'t> = &'t mut dyn FnMut(&SocketAddr, Option<&io::Error>);

/// Returns the addresses with alternating families, in the resolver's order, starting with its first.
pub(crate) fn interleaved(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let first_is_v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<SocketAddr>, Vec<SocketAddr>) =
        addresses.iter().partition(|address| address.is_ipv4() == first_is_v4);
    let mut second = second.into_iter();
    let mut order = Vec::with_capacity(addresses.len());
    for address in first {
        order.push(address);
        order.extend(second.next());
    }
    order.extend(second);
    order
}

struct Attempt {
    socket: OwnedFd,
    address: SocketAddr,
    /// Time limit of this attempt.
    deadline: Option<Instant>,
}

/// Connects to the first of `addresses` that answers. `begin` starts an attempt, `delay` is its head start
/// over the next, `timeout` the limit of each.
///
/// # Errors
/// The error of the last attempt that failed.
pub(crate) fn race(
    addresses: &[SocketAddr],
    delay: Duration,
    timeout: Option<Duration>,
    begin: &mut dyn FnMut(&SocketAddr) -> io::Result<Begun>,
    tried: AttemptCallback<'_>,
) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut waiting = interleaved(addresses).into_iter().peekable();
    let mut running: Vec<Attempt> = Vec::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut next_start = Instant::now();
    loop {
        let now = Instant::now();
        // Without a running attempt the next one starts at once.
        if (running.is_empty() || now >= next_start)
            && let Some(address) = waiting.next()
        {
            tried(&address, None);
            match begin(&address) {
                Ok(Begun::Connected(socket)) => return Ok((socket, address)),
                Ok(Begun::UnderWay(socket)) => {
                    running.push(Attempt { socket, address, deadline: timeout.map(|timeout| now + timeout) });
                    next_start = now + delay;
                }
                Err(error) => {
                    tried(&address, Some(&error));
                    last = error;
                    next_start = now;
                }
            }
            continue;
        }
        if running.is_empty() {
            return Err(last);
        }
        let start = waiting.peek().map(|_| next_start);
        let until = running.iter().filter_map(|attempt| attempt.deadline).chain(start).min();
        for index in ready(&running, until)?.into_iter().rev() {
            let attempt = running.swap_remove(index);
            let outcome = match sockopt::socket_error(&attempt.socket) {
                Ok(Ok(())) => return Ok((attempt.socket, attempt.address)),
                Ok(Err(error)) | Err(error) => error,
            };
            last = outcome.into();
            tried(&attempt.address, Some(&last));
            next_start = Instant::now();
        }
        let now = Instant::now();
        running.retain(|attempt| {
            let late = attempt.deadline.is_some_and(|deadline| deadline <= now);
            if late {
                last = io::ErrorKind::TimedOut.into();
                tried(&attempt.address, Some(&last));
            }
            !late
        });
    }
}

/// Waits for attempts to finish; returns their indices in order.
fn ready(running: &[Attempt], until: Option<Instant>) -> io::Result<Vec<usize>> {
    let mut fds: Vec<PollFd<'_>> =
        running.iter().map(|attempt| PollFd::new(&attempt.socket, PollFlags::OUT)).collect();
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let spec = left.and_then(|left| Timespec::try_from(left).ok());
    match poll(&mut fds, spec.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ended = |(index, fd): (usize, &PollFd<'_>)| (!fd.revents().is_empty()).then_some(index);
    Ok(fds.iter().enumerate().filter_map(ended).collect())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn address_families_alternate() {
        let [a, b, c] = ["192.0.2.1:22", "192.0.2.2:22", "192.0.2.3:22"].map(address);
        let [x, y] = ["[2001:db8::1]:22", "[2001:db8::2]:22"].map(address);
        assert_eq!(interleaved(&[x, y, a, b, c]), [x, a, y, b, c]);
        assert_eq!(interleaved(&[a, b, c]), [a, b, c]);
        assert_eq!(interleaved(&[a, b, x]), [a, x, b]);
        assert!(interleaved(&[]).is_empty());
    }

    /// A socket that never connects or fails: one end of a full socket pair, which never becomes writable.
    fn black_hole(kept: &mut Vec<std::os::unix::net::UnixStream>) -> OwnedFd {
        use std::io::Write;
        let (mut one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        while one.write(&[0; 4096]).is_ok() {}
        kept.push(other);
        one.into()
    }

    /// Covers: ssh_config HappyEyes; ssh_config HappyDelay
    #[test]
    fn silent_address_costs_no_more_than_the_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let silent = address("192.0.2.1:22");
        let (mut kept, mut starts) = (Vec::new(), Vec::new());
        let mut begin = |to: &SocketAddr| {
            starts.push((*to, Instant::now()));
            if *to == silent {
                return Ok(Begun::UnderWay(black_hole(&mut kept)));
            }
            Ok(Begun::Connected(TcpStream::connect(to)?.into()))
        };
        let delay = Duration::from_millis(30);
        // Without a time limit, sequential attempts would hang here.
        let (_, winner) = race(&[silent, good], delay, None, &mut begin, &mut |_, _| {}).unwrap();
        assert_eq!(winner, good);
        assert_eq!(starts.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [silent, good]);
        assert!(starts[1].1 - starts[0].1 >= delay, "the first has its head start");
    }

    #[test]
    fn failed_attempt_starts_the_next_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let closed = {
            let gone = TcpListener::bind("127.0.0.1:0").unwrap();
            gone.local_addr().unwrap()
        };
        let mut begin = |to: &SocketAddr| Ok(Begun::Connected(TcpStream::connect(to)?.into()));
        let mut failures = Vec::new();
        let mut tried = |to: &SocketAddr, error: Option<&io::Error>| {
            failures.extend(error.map(|_| *to));
        };
        // The head start of an hour applies only while an attempt is running.
        let hour = Duration::from_secs(3600);
        let (_, winner) = race(&[closed, closed, good], hour, None, &mut begin, &mut tried).unwrap();
        assert_eq!((winner, failures), (good, vec![closed, closed]));
        let error = race(&[closed], hour, None, &mut begin, &mut |_, _| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn every_attempt_has_its_own_time_limit() {
        let silent = ["192.0.2.1:22", "192.0.2.2:22"].map(address);
        let mut kept = Vec::new();
        let mut begin = |_: &SocketAddr| Ok(Begun::UnderWay(black_hole(&mut kept)));
        let mut late = Vec::new();
        let mut tried = |to: &SocketAddr, error: Option<&io::Error>| late.extend(error.map(|_| *to));
        let (delay, timeout) = (Duration::from_millis(1), Some(Duration::from_millis(20)));
        let error = race(&silent, delay, timeout, &mut begin, &mut tried).unwrap_err();
        assert_eq!((error.kind(), late), (io::ErrorKind::TimedOut, silent.to_vec()));
    }
}
