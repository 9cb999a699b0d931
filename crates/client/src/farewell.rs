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
use std::time::{Duration, Instant};

use lh_driver::{Link, LinkError};
use lh_sys::signals::{self, Signals};
use lh_transport::Event;
use lh_wire::msg::disconnect;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};

/// Time limit for sending the final DISCONNECT.
pub(crate) const DISCONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Time limit for the final DISCONNECT to a server that would keep the session without it.
pub(crate) const FAREWELL_TIMEOUT: Duration = Duration::from_secs(4);

/// Time for it on the session's connection alone, before another one is made for it.
pub(crate) const LEAVE_ALONE: Duration = Duration::from_secs(1);

/// Time for it where the session has come to its end and this end cannot see that all has arrived: pipes to a
/// ProxyCommand, and connections through a thread of this process. Some proxies do not pass on the server's
/// close, which is all that is waited for.
pub(crate) const LEAVE_QUIET: Duration = Duration::from_millis(500);

/// Text of the final DISCONNECT.
pub(crate) const LEAVE_TEXT: &str = "disconnected by user";

/// Signals that end a process, and that it may handle. `rsync` ends its `ssh` by SIGUSR1 after errors.
pub const END_SIGNALS: [Signal; 7] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::ALARM];

/// Those of them after which `ssh` ends with a status of its own, as OpenSSH's does.
pub const STATUS_SIGNALS: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// Time for the link's own waits between two looks at the signals.
const BRIEF: Duration = Duration::from_millis(1);

/// Time between two attempts to write what the kernel does not take.
const BLOCKED: Duration = Duration::from_millis(50);

/// Time between two looks at the link's own deadlines.
const IDLE: Duration = Duration::from_secs(1);

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

/// Notices that a signal ends the process while a thread waits that runs no loop: for the end of the login,
/// with which the server has a session, and between the login and the loop.
pub(crate) enum Watch {
    /// In a program that has called [`prepare`].
    Prepared(Running),
    /// In others: collects the signals, which are blocked meanwhile. Released on drop.
    Collected(Option<Box<Signals>>),
}

impl Watch {
    /// Begins to watch for signals. `None` without descriptors.
    pub(crate) fn begin() -> Option<Self> {
        let collect = || Signals::collect(&signals::not_ignored(&END_SIGNALS)).ok();
        Running::begin()
            .map(Self::Prepared)
            .or_else(|| collect().map(|signals| Self::Collected(Some(Box::new(signals)))))
    }

    /// Leaves the signals to a caller that collects them now, those that have arrived included.
    pub(crate) fn hand_over(mut self) {
        if let Self::Collected(signals) = &mut self
            && let Some(signals) = signals.take()
        {
            // All are taken before one is sent again: it is pending here as well until then.
            let mut came = Vec::new();
            while let Ok(Some(signal)) = signals.take() {
                came.push(signal);
            }
            for signal in came {
                let _ = kill_process(getpid(), signal);
            }
            // Not dropped: the caller's collection may restore this one when it ends.
            Box::leak(signals);
        }
    }

    fn end(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Prepared(running) => Some(running.end()),
            Self::Collected(signals) => signals.as_ref().map(|signals| signals.as_fd()),
        }
    }

    /// Returns the link's next event. A signal that ends the process ends the session: the server is told,
    /// and this does not return.
    ///
    /// # Errors
    /// The connection is over, or `deadline` has passed.
    pub(crate) fn next_event(
        &mut self,
        link: &mut Link,
        deadline: Option<Instant>,
    ) -> Result<Event, LinkError> {
        loop {
            match link.next_event(Some(Instant::now() + BRIEF)) {
                Err(LinkError::TimedOut) if deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
                result => return result,
            }
            let wait = if link.queued_bytes() > 0 { BLOCKED } else { IDLE };
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let wait = left.map_or(wait, |left| wait.min(left));
            if self.has_come(link.stream().read_fd(), Some(wait)) {
                self.leave_if_it_is_the_end(link);
            }
        }
    }

    /// Waits until `done` is readable, as [`next_event`](Self::next_event) waits for the server.
    pub(crate) fn wait_for(&mut self, done: BorrowedFd<'_>, link: &mut Link) {
        while self.has_come(done, None) {
            self.leave_if_it_is_the_end(link);
        }
    }

    /// Waits until `other` is readable, the time is over or a signal has come; true for the last.
    fn has_come(&self, other: BorrowedFd<'_>, time: Option<Duration>) -> bool {
        let mut fds = vec![PollFd::from_borrowed_fd(other, PollFlags::IN)];
        fds.extend(self.end().map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN)));
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        // An error (EINTR) is like the end of the time for a caller with one; others wait on.
        while poll(&mut fds, time.as_ref()).is_err() && time.is_none() {}
        fds.get(1).is_some_and(|end| !end.revents().is_empty())
    }

    /// Tells the server, and ends the process by the signal. Returns only if another thread has taken it.
    fn leave_if_it_is_the_end(&mut self, link: &mut Link) {
        // The first signal is taken before: those that are pending end the wait for the server.
        let signal = match self {
            Self::Collected(signals) => {
                let taken = signals.as_ref().and_then(|signals| signals.take().ok().flatten());
                if taken.is_none() {
                    return;
                }
                taken
            }
            Self::Prepared(_) => None,
        };
        // The server may not listen, because it checks a password.
        link.leave(disconnect::BY_APPLICATION, LEAVE_TEXT, DISCONNECT_TIMEOUT);
        match signal {
            Some(signal) => signals::end_by(signal),
            None => self.park(),
        }
    }

    /// Waits for ever: the thread that has the signal ends the process.
    fn park(&mut self) -> ! {
        *self = Self::Collected(None);
        loop {
            std::thread::park();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Self::Collected(signals) = self
            && let Some(signals) = signals.take()
        {
            signals.release();
        }
    }
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
