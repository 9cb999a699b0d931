//! Threads that make file system calls, so that a blocking call delays one SFTP channel and not the
//! connection.
//!
//! They start with the first job and end after some idle time. The process does not wait for them at its
//! exit, because a thread's call may never return.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

/// Largest number of threads in a session process: when this many channels hang, the next one waits.
const MOST: usize = 4;

/// Idle time after which a thread ends.
const IDLE: Duration = Duration::from_secs(5);

/// Work for a thread.
pub(super) type Job = Box<dyn FnOnce() + Send>;

/// The worker threads of one session process; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Workers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

impl Workers {
    /// Queues `job` for a thread. Returns it where no thread can be started.
    pub(super) fn submit(&self, job: Job) -> Result<(), Job> {
        let mut state = self.0.lock();
        state.queue.push_back(job);
        if state.idle >= state.queue.len() {
            self.0.work.notify_one();
            return Ok(());
        }
        if state.threads == MOST {
            return Ok(());
        }
        let shared = Arc::clone(&self.0);
        let started = std::thread::Builder::new().name("files".to_owned()).spawn(move || shared.serve());
        if started.is_ok() {
            state.threads += 1;
        } else if state.threads == 0
            && let Some(job) = state.queue.pop_back()
        {
            return Err(job);
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                // Half a job cannot be undone: a panic here ends the process, like a panic of the loop.
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                    std::process::abort();
                }
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let waited = self.work.wait_timeout_while(state, IDLE, |state| state.queue.is_empty());
            let (back, result) = waited.unwrap_or_else(PoisonError::into_inner);
            state = back;
            state.idle -= 1;
            if result.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// Receives results from threads, and has a descriptor that is readable when a result is there.
pub(super) struct ResultQueue<T> {
    inbox: Arc<Inbox<T>>,
    wake: Arc<OwnedFd>,
}

struct Inbox<T> {
    result: Mutex<Option<T>>,
    arrived: Condvar,
}

/// Delivers results to a [`ResultQueue`].
pub(super) struct Address<T> {
    inbox: Weak<Inbox<T>>,
    wake: Arc<OwnedFd>,
}

impl<T> Inbox<T> {
    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> ResultQueue<T> {
    pub(super) fn new() -> std::io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inbox = Inbox { result: Mutex::new(None), arrived: Condvar::new() };
        Ok(Self { inbox: Arc::new(inbox), wake: Arc::new(wake) })
    }

    pub(super) fn address(&self) -> Address<T> {
        Address { inbox: Arc::downgrade(&self.inbox), wake: Arc::clone(&self.wake) }
    }

    /// Takes the result, if it is there.
    pub(super) fn take(&self) -> Option<T> {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        self.inbox.lock().take()
    }

    /// Waits for the result until `deadline`.
    pub(super) fn wait(&self, deadline: Instant) -> Option<T> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited =
            self.inbox.arrived.wait_timeout_while(self.inbox.lock(), left, |result| result.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }

    /// Returns a descriptor that is readable when the result is there.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl<T> Address<T> {
    /// Delivers a result. If the mailbox has been dropped, `result` is dropped in this thread.
    pub(super) fn deliver(&self, result: T) {
        if let Some(inbox) = self.inbox.upgrade() {
            *inbox.lock() = Some(result);
            inbox.arrived.notify_one();
            // Fails only when the counter is full, and then the descriptor is readable anyway.
            let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        }
    }

    /// Replaces the descriptor, for a thread with its own descriptor table.
    pub(super) fn with_descriptor(self, wake: OwnedFd) -> Self {
        Self { wake: Arc::new(wake), ..self }
    }

    /// Returns the descriptor that wakes the mailbox's loop.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Returns the next message. Fails, and does not hang, where none comes.
    fn next<T>(messages: &std::sync::mpsc::Receiver<T>) -> T {
        messages.recv_timeout(crate::testing::LATE).unwrap()
    }

    #[test]
    fn a_job_that_hangs_does_not_stop_others() {
        let workers = Workers::default();
        let (release, hang) = channel::<()>();
        let (done, results) = channel();
        let last = done.clone();
        assert!(workers.submit(Box::new(move || last.send(hang.recv().is_ok()).unwrap())).is_ok());
        for _ in 0..20 {
            let done = done.clone();
            assert!(workers.submit(Box::new(move || done.send(false).unwrap())).is_ok());
        }
        assert!((0..20).all(|_| !next(&results)));
        assert!(workers.0.lock().threads <= MOST);
        release.send(()).unwrap();
        assert!(next(&results));
    }

    #[test]
    fn jobs_wait_when_all_threads_hang() {
        let workers = Workers::default();
        let (done, results) = channel();
        let releases: Vec<_> = (0..=MOST)
            .map(|n| {
                let (release, hang) = channel::<()>();
                let done = done.clone();
                let job = move || {
                    let _ = hang.recv();
                    // Ignored: the test may have ended.
                    let _ = done.send(n);
                };
                assert!(workers.submit(Box::new(job)).is_ok());
                release
            })
            .collect();
        assert_eq!(workers.0.lock().threads, MOST);
        releases[0].send(()).unwrap();
        assert_eq!(next(&results), 0);
        releases[MOST].send(()).unwrap();
        assert_eq!(next(&results), MOST);
    }

    #[test]
    fn a_result_without_a_mailbox_is_dropped_by_the_worker() {
        struct Told(std::sync::mpsc::Sender<std::thread::ThreadId>);
        impl Drop for Told {
            fn drop(&mut self) {
                self.0.send(std::thread::current().id()).unwrap();
            }
        }
        let (told, dropped) = channel();
        let address = ResultQueue::new().unwrap().address();
        assert!(Workers::default().submit(Box::new(move || address.deliver(Told(told)))).is_ok());
        assert_ne!(next(&dropped), std::thread::current().id());
    }

    #[test]
    fn a_result_wakes_and_is_taken_once() {
        let mailbox = ResultQueue::new().unwrap();
        assert!(mailbox.take().is_none());
        mailbox.address().deliver(7);
        assert_eq!(mailbox.wait(Instant::now()), Some(7));
        mailbox.address().deliver(8);
        assert_eq!((mailbox.take(), mailbox.take()), (Some(8), None));
    }
}
