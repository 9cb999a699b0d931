//! Farewell when a signal ends the process: servers that keep sessions (`ResumeGrace`) are told that their
//! client does not come back.
//!
//! A program whose loop handles such signals itself ([`Client::close`](crate::Client::close)) needs none of
//! this. Others call [`prepare`] at their start and [`leave_all`] when the signal has come, from another
//! thread than those that run connections.

use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::handshake::FAREWELL_TIMEOUT;

/// Time beside [`FAREWELL_TIMEOUT`] until the loops have noticed.
const NOTICE: Duration = Duration::from_millis(500);

struct Sessions {
    /// Readable, and never read, once all sessions shall end.
    end: UnixStream,
    notify: UnixStream,
    /// Number of connections whose loops run.
    running: Mutex<usize>,
    left: Condvar,
}

static SESSIONS: OnceLock<Sessions> = OnceLock::new();

/// Lets connections that are run from now on end by [`leave_all`]. Without descriptors they do not.
pub fn prepare() {
    if let Ok((notify, end)) = UnixStream::pair() {
        let _ = SESSIONS.set(Sessions { end, notify, running: Mutex::new(0), left: Condvar::new() });
    }
}

/// Ends all resumable sessions whose loops run, and waits until their servers know it, for a few seconds at
/// most. The threads that run them wait for ever: end the process afterwards.
pub fn leave_all() {
    let Some(sessions) = SESSIONS.get() else { return };
    let _ = (&sessions.notify).write_all(&[0]);
    let running = sessions.running.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = sessions.left.wait_timeout_while(running, FAREWELL_TIMEOUT + NOTICE, |running| *running > 0);
}

/// A resumable session whose loop runs.
pub(crate) struct Running(&'static Sessions);

impl Running {
    /// Registers a session; `None` in a program that has not called [`prepare`].
    pub(crate) fn begin() -> Option<Self> {
        let sessions = SESSIONS.get()?;
        *sessions.running.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Some(Self(sessions))
    }

    /// Readable once the session shall end.
    pub(crate) fn end(&self) -> BorrowedFd<'_> {
        self.0.end.as_fd()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.left.notify_all();
    }
}
