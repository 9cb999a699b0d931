//! The events that the monitor waits for, and its answers.

use std::time::Instant;

use lh_sys::signals::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::common::Address;
use super::shared_sockets::SharedSockets;
use crate::log::error;
use crate::monitor::Unexpected;
use crate::monitor_ipc::{MonitorSocket, MonitorSocketError};

/// The event that ended a wait.
pub(super) enum WaitEnd {
    /// A message of the connection's own process, or a request of another one, or both.
    Requests {
        own: bool,
        shared: bool,
    },
    Signal,
    TooLate,
}

/// Waits for a message, a signal or a request about a resumable session, until `deadline`.
pub(super) fn wait(
    ipc: &MonitorSocket,
    signals: &mut Signals,
    deadline: Option<Instant>,
    shared_sockets: Option<&SharedSockets>,
) -> std::io::Result<WaitEnd> {
    let deadline = [deadline, shared_sockets.and_then(SharedSockets::deadline)].into_iter().flatten().min();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(WaitEnd::TooLate);
        }
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut fds = vec![PollFd::new(ipc.socket(), PollFlags::IN), PollFd::new(&*signals, PollFlags::IN)];
        if let Some(shared_sockets) = shared_sockets {
            shared_sockets.interests(&mut fds);
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        // A signal that arrived before this call is still pending, so its descriptor is ready at once.
        if ready.get(1) == Some(&true) && signals.take()?.is_some() {
            return Ok(WaitEnd::Signal);
        }
        let own = ready.first() == Some(&true);
        let shared = ready.iter().skip(2).any(|ready| *ready);
        if own || shared {
            return Ok(WaitEnd::Requests { own, shared });
        }
    }
}

/// Why the monitor stops serving a process.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stop {
    #[error(transparent)]
    MonitorSocket(#[from] MonitorSocketError),
    #[error(transparent)]
    Unexpected(#[from] Unexpected),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("session ended by a signal")]
    Signal,
    #[error("the user may not have the session any more")]
    Refused,
    #[error("session ended by the user with id {0} (longhaul sessions)")]
    Ended(u32),
    #[error("too late")]
    TooLate,
}

/// Sends a signature, or an empty message where the key cannot make it.
pub(super) fn answer(
    ipc: &MonitorSocket,
    signature: Result<Vec<u8>, lh_crypto::CryptoError>,
    address: &Address,
) -> Result<(), MonitorSocketError> {
    match signature {
        Ok(signature) => ipc.send(&signature),
        Err(problem) => {
            error!(address.log, "host key signature failed: {problem}");
            ipc.send(b"")
        }
    }
}
