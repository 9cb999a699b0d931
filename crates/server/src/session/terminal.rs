//! Allocates terminals for sessions. A session inside a chroot asks the monitor: it may have no `/dev/pts`,
//! and a terminal of its own would not be the one that login records name.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lh_sys::pass::{receive_fd, send_fd};
use lh_sys::pty::Pty;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::monitor_ipc::{MonitorRequest, MonitorSocket, MonitorSocketError};

/// How long the monitor may take to answer. It waits for locks of the login records, which other local users
/// can hold: ten seconds for each of two files.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Allocates a terminal with the user's rights, or asks the monitor for one outside the chroot.
pub(super) fn allocate(monitor: &mut MonitorSocket, inside_chroot: bool) -> io::Result<Pty> {
    if !inside_chroot {
        return Pty::allocate();
    }
    let other = |problem: MonitorSocketError| io::Error::other(problem.to_string());
    monitor.send(&MonitorRequest::Terminal.encode()).map_err(other)?;
    // Both descriptors precede the name: a plain read would lose them.
    let fds = [receive(monitor)?, receive(monitor)?];
    let name = monitor.receive().map_err(other)?;
    let [Some(master), Some(slave)] = fds else {
        return Err(io::Error::other("refused by the monitor"));
    };
    let name = String::from_utf8_lossy(&name).into_owned();
    Ok(Pty::from_parts(master, slave, PathBuf::from(name)))
}

/// Waits for one descriptor; `None` for a byte without one, which is a refusal.
///
/// # Errors
/// The monitor is gone or takes too long. Nothing is heard of it afterwards: a late answer would be taken for
/// that to another request, and a recording or a terminal for another one.
pub(super) fn receive(monitor: &MonitorSocket) -> io::Result<Option<OwnedFd>> {
    receive_within(monitor, TIMEOUT)
}

fn receive_within(monitor: &MonitorSocket, timeout: Duration) -> io::Result<Option<OwnedFd>> {
    let deadline = Instant::now() + timeout;
    loop {
        match receive_fd(monitor.socket()) {
            Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => {}
            Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
            received => return received,
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let _ = monitor.socket().shutdown(Shutdown::Both);
            return Err(io::ErrorKind::TimedOut.into());
        }
        let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
        let timeout = Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(monitor.socket(), PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(problem) => return Err(problem.into()),
        }
    }
}

/// Sends the monitor's answer to [`MonitorRequest::Terminal`]: master, slave and name. Without a terminal it
/// is two bytes without descriptors and an empty name.
pub(super) fn answer(ipc: &MonitorSocket, pty: Option<Pty>) -> Result<(), MonitorSocketError> {
    let parts = pty.and_then(|pty| {
        let slave = pty.open_slave().ok()?;
        Some((pty.name().display().to_string(), pty.into_master(), slave))
    });
    let Some((name, master, slave)) = parts else {
        use std::io::Write;
        (&mut ipc.socket()).write_all(&[0, 0])?;
        return ipc.send(b"");
    };
    send_fd(ipc.socket(), master.as_fd())?;
    send_fd(ipc.socket(), slave.as_fd())?;
    ipc.send(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// Returns the session's result when the monitor answers with `pty`.
    fn asked(pty: Option<Pty>) -> io::Result<Pty> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut session, mut monitor) =
            (MonitorSocket::new(ours).unwrap(), MonitorSocket::new(theirs).unwrap());
        // Answered in advance: all messages fit the socket's buffer.
        answer(&monitor, pty).unwrap();
        let pty = allocate(&mut session, true);
        let request = monitor.receive().unwrap();
        assert!(matches!(MonitorRequest::decode(&request), Ok(MonitorRequest::Terminal)));
        pty
    }

    #[test]
    fn a_late_descriptor_is_none_for_the_next_request() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let session = MonitorSocket::new(ours).unwrap();
        let late = receive_within(&session, Duration::from_millis(1)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(send_fd(&theirs, null.as_fd()).is_err());
        assert!(!matches!(receive_within(&session, Duration::from_millis(1)), Ok(Some(_))));
    }

    #[test]
    fn monitor_passes_both_ends_of_a_terminal() {
        assert_eq!(asked(None).unwrap_err().to_string(), "refused by the monitor");
        let Ok(pty) = Pty::allocate() else {
            return lh_testkit::skip_unavailable(
                "monitor_passes_both_ends_of_a_terminal",
                "no pseudo terminal here",
            );
        };
        let name = pty.name().to_owned();
        let passed = asked(Some(pty)).unwrap();
        assert_eq!(passed.name(), name);
        rustix::io::write(passed.open_slave().unwrap(), b"x").unwrap();
        let mut byte = [0; 1];
        rustix::io::read(&passed, &mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }
}
