//! A light load generator: many sessions in one thread, driven by epoll.
//!
//! A generator with terminals at which keys are pressed runs at a higher priority, if the user may set one.

mod session;

use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{getpriority_process, setpriority_process};

use session::Session;
pub(crate) use session::{Account, Task};

/// Sessions that log in at the same time.
const AT_ONCE: usize = 16;

/// Time in which a login must make progress.
const STUCK: Duration = Duration::from_secs(60);

/// Nice value while a server is measured.
const RAISED: i32 = -10;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;

/// The sessions.
pub(crate) struct Load<'a> {
    epoll: rustix::fd::OwnedFd,
    sessions: Vec<Session<'a>>,
    /// True if the kernel also reports when a session's socket is writable.
    wants_write: Vec<bool>,
    server: (&'a str, u16),
    account: &'a Account<'a>,
    cipher: &'a str,
}

/// Result of a measurement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moved {
    /// Duration, seconds.
    pub(crate) seconds: f64,
    /// Bytes of each download.
    pub(crate) down: Vec<u64>,
    /// Bytes of each upload.
    pub(crate) up: Vec<u64>,
    /// Times from key to echo.
    pub(crate) echoes: Vec<Duration>,
}

impl<'a> Load<'a> {
    /// Returns a generator without sessions for the server at this address and port.
    ///
    /// # Errors
    /// Descriptors are used up.
    pub(crate) fn new(
        server: (&'a str, u16),
        account: &'a Account<'a>,
        cipher: &'a str,
    ) -> Result<Self, String> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| format!("epoll: {error}"))?;
        Ok(Self { epoll, sessions: Vec::new(), wants_write: Vec::new(), server, account, cipher })
    }

    /// Adds sessions and waits until all their commands run.
    ///
    /// # Errors
    /// A session fails, or none makes progress.
    pub(crate) fn add(&mut self, task: Task, count: usize) -> Result<(), String> {
        let wanted = self.sessions.len() + count;
        let mut progress = (Instant::now(), 0);
        loop {
            let running = self.sessions.iter().filter(|session| session.runs()).count();
            if running == wanted {
                return Ok(());
            }
            if running > progress.1 {
                progress = (Instant::now(), running);
            } else if progress.0.elapsed() > STUCK {
                return Err(format!("{running} of {wanted} sessions run, and no other for {STUCK:?}"));
            }
            while self.sessions.len() < wanted && self.sessions.len() - running < AT_ONCE {
                let session = Session::connect(self.server, self.account, task, self.cipher)?;
                let token = epoll::EventData::new_u64(self.sessions.len() as u64);
                epoll::add(&self.epoll, session.fd(), token, epoll::EventFlags::IN)
                    .map_err(|error| format!("epoll: {error}"))?;
                self.sessions.push(session);
                self.wants_write.push(false);
                self.advance(self.sessions.len() - 1)?;
            }
            self.wait(Duration::from_millis(100))?;
        }
    }

    /// Lets all sessions run for a quarter of `duration`, and then measures them for `duration`.
    ///
    /// # Errors
    /// Time limit for progress of a login.
    pub(crate) fn measure(&mut self, duration: Duration) -> Result<Moved, String> {
        let types = self.sessions.iter().any(|session| session.task() == Task::Keys);
        let _priority = types.then(Priority::raise);
        self.run_for(duration / 4)?;
        let before: Vec<u64> = self.sessions.iter().map(Session::moved).collect();
        self.sessions.iter_mut().for_each(|session| drop(session.take_echoes()));
        let start = Instant::now();
        self.run_for(duration)?;
        let mut moved = Moved { seconds: start.elapsed().as_secs_f64(), ..Moved::default() };
        for (session, before) in self.sessions.iter_mut().zip(before) {
            let bytes = session.moved() - before;
            match session.task() {
                Task::Download => moved.down.push(bytes),
                Task::Upload => moved.up.push(bytes),
                Task::Idle | Task::Keys => moved.echoes.extend(session.take_echoes()),
            }
        }
        Ok(moved)
    }

    fn run_for(&mut self, duration: Duration) -> Result<(), String> {
        let end = Instant::now() + duration;
        loop {
            let now = Instant::now();
            let Some(left) = end.checked_duration_since(now).filter(|left| !left.is_zero()) else {
                return Ok(());
            };
            let mut wait = left.min(session::PAUSE);
            for session in self.sessions.iter_mut().filter(|session| session.task() == Task::Keys) {
                if let Some(at) = session.press_key(now)? {
                    wait = wait.min(at.saturating_duration_since(now));
                }
            }
            self.wait(wait)?;
        }
    }

    /// Waits for events, and handles those that have arrived.
    fn wait(&mut self, at_most: Duration) -> Result<(), String> {
        let timeout = Timespec::try_from(at_most).map_err(|error| error.to_string())?;
        let mut events = Vec::with_capacity(EVENTS);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(format!("epoll: {error}")),
        }
        for event in events {
            self.advance(usize::try_from(event.data.u64()).unwrap_or(usize::MAX))?;
        }
        Ok(())
    }

    fn advance(&mut self, index: usize) -> Result<(), String> {
        let session = &mut self.sessions[index];
        let wants = session.advance().map_err(|error| format!("session {index}: {error}"))?;
        if wants != self.wants_write[index] {
            self.wants_write[index] = wants;
            let flags =
                if wants { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            epoll::modify(&self.epoll, session.fd(), epoll::EventData::new_u64(index as u64), flags)
                .map_err(|error| format!("epoll: {error}"))?;
        }
        Ok(())
    }
}

/// A higher priority of this thread, if the user may set one, until it is dropped. Among hundreds of busy
/// processes, the time from key to echo would mostly be the time until the generator itself runs.
struct Priority(i32);

impl Priority {
    fn raise() -> Self {
        let before = getpriority_process(None).unwrap_or(0);
        let _ = setpriority_process(None, RAISED);
        Self(before)
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        let _ = setpriority_process(None, self.0);
    }
}
