//! Worker pool: threads that seal and open packets for the loop, and the policy that starts and stops them.
//!
//! The loop's own thread makes the system calls; the workers run the ciphers. A [`Job`] of about a quarter of
//! a megabyte moves to a worker with all its bytes and comes back in the same way. Each job costs two lock
//! operations, and a wake-up only where a thread sleeps.
//!
//! Threads start only under sustained bulk in a running [`Driver`](crate::Driver), and all have ended when
//! [`Driver::run`](crate::Driver::run) returns: a process with threads cannot be forked safely.

use std::collections::VecDeque;
use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lh_transport::Job;
use rustix::time::{ClockId, clock_gettime};

/// Number of threads that seal and open packets besides the loop's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Workers {
    /// No worker threads: the loop's own thread seals and opens everything.
    None,
    /// One per spare core, while the loop's own core limits a transfer and the workers raise its rate. None
    /// with one or two cores: the peer, or the program that owns the data, needs the second.
    #[default]
    Auto,
    /// Exactly this number, from the first turn on. For tests and measurements.
    Exactly(usize),
}

/// Upper limit of worker threads. More have nothing to do: the loop's thread cannot move more bytes.
const MOST_WORKERS: usize = 8;

impl Workers {
    /// Environment variable that sets the number of workers, for tests and measurements.
    pub const ENVIRONMENT: &str = "LH_WORKERS";

    /// Workers of a connection: none where the configuration says `disabled` (HPN-SSH's `DisableMTAES`), else
    /// the value of the environment variable `LH_WORKERS` (a number, or `auto`), else [`Auto`](Self::Auto).
    pub fn configured(disabled: bool) -> Self {
        if disabled {
            return Self::None;
        }
        let number = std::env::var(Self::ENVIRONMENT).ok().and_then(|text| text.parse().ok());
        number.map_or(Self::Auto, Self::Exactly)
    }

    /// Upper limit of workers on a machine with this number of `cores`.
    fn most(self, cores: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Exactly(n) => n.min(MOST_WORKERS),
            Self::Auto => cores.saturating_sub(2).min(MOST_WORKERS),
        }
    }
}

/// The worker threads and their shared state. [`Driver`](crate::Driver) creates its own; a program that
/// drives a transport itself uses this directly. Dropping it ends the threads.
pub struct WorkerPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Readable when a job finishes while the loop sleeps.
    wake: OwnedFd,
}

struct Shared {
    state: Mutex<State>,
    /// Signals queued work or closing.
    work: Condvar,
    /// Signals a finished job.
    done: Condvar,
    waker: OwnedFd,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    done: Vec<Job>,
    running: usize,
    idle: usize,
    /// The loop is polling its descriptors, including the pipe's read end.
    asleep: bool,
    /// The pipe holds a byte.
    woken: bool,
    closing: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds this lock with the state half changed, so a poisoned lock is usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(mut job) = state.queue.pop_front() {
                state.running += 1;
                drop(state);
                run(&mut job);
                state = self.lock();
                state.running -= 1;
                state.done.push(job);
                self.done.notify_one();
                if std::mem::take(&mut state.asleep) {
                    state.woken = true;
                    // The pipe is empty here, so one byte always fits.
                    let _ = rustix::io::write(&self.waker, &[1]);
                }
            } else if state.closing {
                return;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

/// Runs a job. A panic in it aborts the process, as a panic of the loop would: the loop would wait for that
/// job forever, and half-sealed bytes must not be sent.
fn run(job: &mut Job) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run())).is_err() {
        std::process::abort();
    }
}

impl WorkerPool {
    /// Starts `n` threads, or as many as the system permits.
    ///
    /// # Errors
    /// Not one thread could be started.
    pub fn start(n: usize) -> io::Result<Self> {
        let (wake, waker) = lh_sys::fd::pipe()?;
        lh_sys::fd::set_nonblocking(&wake, true)?;
        lh_sys::fd::set_nonblocking(&waker, true)?;
        let shared =
            Arc::new(Shared { state: Mutex::default(), work: Condvar::new(), done: Condvar::new(), waker });
        let mut threads = Vec::new();
        for _ in 0..n {
            let shared = Arc::clone(&shared);
            match std::thread::Builder::new().name("packets".to_owned()).spawn(move || shared.serve()) {
                Ok(thread) => threads.push(thread),
                Err(error) if threads.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(Self { shared, threads, wake })
    }

    /// Number of threads.
    pub const fn size(&self) -> usize {
        self.threads.len()
    }

    /// Queues a job for the first free thread.
    pub fn submit(&self, job: Job) {
        let mut state = self.shared.lock();
        state.queue.push_back(job);
        if state.idle > 0 {
            self.shared.work.notify_one();
        }
    }

    /// Appends finished jobs to `into`.
    pub fn collect(&self, into: &mut Vec<Job>) {
        into.append(&mut self.shared.lock().done);
    }

    /// True when the loop has something to do at once: a job is finished, or no thread has taken a queued
    /// one.
    pub fn is_ready(&self) -> bool {
        let state = self.shared.lock();
        !state.done.is_empty() || state.queue.len() > state.idle
    }

    /// Announces that the loop is about to wait for [`fd`](Self::fd). Returns false when a finished job makes
    /// the wait pointless.
    pub fn prepare_wait(&self) -> bool {
        let mut state = self.shared.lock();
        state.asleep = state.done.is_empty();
        state.asleep
    }

    /// Ends the wait announced by [`prepare_wait`](Self::prepare_wait).
    pub fn wake_up(&self) {
        let mut state = self.shared.lock();
        state.asleep = false;
        if std::mem::take(&mut state.woken) {
            let _ = rustix::io::read(&self.wake, &mut [0; 16]);
        }
    }

    /// Descriptor that becomes readable when a job finishes after [`prepare_wait`](Self::prepare_wait).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Runs one queued job that no thread has taken; false when there is none.
    pub fn help(&self) -> bool {
        let Some(mut job) = self.shared.lock().queue.pop_front() else { return false };
        run(&mut job);
        self.shared.lock().done.push(job);
        true
    }

    /// Waits until every job is done, and runs queued jobs itself.
    pub fn finish(&self) {
        while self.help() {}
        let mut state = self.shared.lock();
        while state.running > 0 {
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Observation interval.
const SPAN: Duration = Duration::from_millis(20);
/// Bytes in one span from which the traffic counts as bulk (100 MB/s).
const BULK: u64 = 2 << 20;
/// Bytes in one span below which the loop counts as quiet.
const QUIET: u64 = 128 << 10;
/// Consecutive spans before workers start, and before their gain is judged.
const SPANS: u32 = 4;
/// Consecutive quiet spans before workers stop.
const QUIET_SPANS: u32 = 25;
/// Pause before the next attempt, after workers brought no gain. It doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Decides when workers start and stop.
///
/// They start when the loop's thread has been almost fully busy with bulk for [`SPANS`]: then it had a core
/// of its own and limited the transfer. A thread that waits for its peer or its disk, or shares its core with
/// others, is never that busy. They stop when bulk is over, or when they bring no gain.
pub(crate) struct WorkerScaling {
    workers: Workers,
    most: Option<usize>,
    start: Option<(Instant, Duration, u64)>,
    busy: u32,
    quiet: u32,
    /// Bytes per second before the workers started.
    rate: f64,
    /// Sum of the rates since they started, and the number of spans summed.
    rates: (f64, u32),
    pause: Duration,
    not_before: Option<Instant>,
}

/// Decision of the [`WorkerScaling`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advice {
    Stay,
    Join(usize),
    Leave,
}

impl WorkerScaling {
    pub(crate) const fn new(workers: Workers) -> Self {
        Self {
            workers,
            most: None,
            start: None,
            busy: 0,
            quiet: 0,
            rate: 0.0,
            rates: (0.0, 0),
            pause: FIRST_PAUSE,
            not_before: None,
        }
    }

    /// Observes the loop once a turn. `bytes`: total moved, both directions. `joined`: workers are running.
    /// `spun`: time that the loop spent polling without work, which looks like CPU use.
    pub(crate) fn evaluate(&mut self, now: Instant, spun: Duration, bytes: u64, joined: bool) -> Advice {
        let workers = self.workers;
        match workers {
            Workers::None | Workers::Exactly(0) => return Advice::Stay,
            Workers::Exactly(n) => return if joined { Advice::Stay } else { Advice::Join(n) },
            Workers::Auto => {}
        }
        let Some((start, _, _)) = self.start else {
            self.start = Some((now, thread_time().saturating_sub(spun), bytes));
            return Advice::Stay;
        };
        if now.saturating_duration_since(start) < SPAN {
            return Advice::Stay;
        }
        let most = *self.most.get_or_insert_with(|| {
            // `available_parallelism` respects CPU affinity and quotas. It reads five files: not for a
            // connection that is over before it could need a worker.
            workers.most(std::thread::available_parallelism().map_or(1, NonZero::get))
        });
        if most == 0 {
            return Advice::Stay;
        }
        self.judge(now, thread_time().saturating_sub(spun), bytes, joined, most)
    }

    fn judge(&mut self, now: Instant, cpu: Duration, bytes: u64, joined: bool, most: usize) -> Advice {
        let (start, cpu_start, bytes_start) =
            self.start.replace((now, cpu, bytes)).unwrap_or((now, cpu, bytes));
        let wall = now.saturating_duration_since(start).as_secs_f64().max(1e-6);
        let moved = bytes.saturating_sub(bytes_start);
        let rate = moved as f64 / wall;
        // A turn may be longer than SPAN when the loop slept.
        let spans = wall / SPAN.as_secs_f64();
        if joined {
            self.quiet = if (moved as f64) < QUIET as f64 * spans { self.quiet + spans as u32 } else { 0 };
            self.rates = (self.rates.0 + rate, self.rates.1 + 1);
            if self.quiet >= QUIET_SPANS {
                (self.busy, self.quiet) = (0, 0);
                return Advice::Leave;
            }
            // Judged only after three times SPANS, because the first spans include the warm-up.
            if self.rates.1 == 3 * SPANS && self.rates.0 / f64::from(3 * SPANS) < self.rate * 1.05 {
                self.busy = 0;
                self.not_before = Some(now + self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                return Advice::Leave;
            }
            return Advice::Stay;
        }
        let used = cpu.saturating_sub(cpu_start).as_secs_f64() / wall;
        if used < 0.85
            || (moved as f64) < BULK as f64 * spans
            || self.not_before.is_some_and(|then| now < then)
        {
            (self.busy, self.rate) = (0, 0.0);
            return Advice::Stay;
        }
        self.busy += 1;
        self.rate += (rate - self.rate) / f64::from(self.busy);
        if self.busy < SPANS {
            return Advice::Stay;
        }
        (self.quiet, self.rates) = (0, (0.0, 0));
        Advice::Join(most)
    }
}

/// CPU time of the calling thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `n` spans of 20 ms in each of which the loop moves `mib` MiB and is busy for the fraction
    /// `busy`.
    fn spans(
        scaling: &mut WorkerScaling,
        from: &mut (Instant, Duration, u64),
        n: u32,
        mib: u64,
        busy: f64,
        joined: bool,
    ) -> Vec<Advice> {
        (0..n)
            .map(|_| {
                from.0 += SPAN;
                from.1 += SPAN.mul_f64(busy);
                from.2 += mib << 20;
                scaling.judge(from.0, from.1, from.2, joined, 3)
            })
            .filter(|advice| *advice != Advice::Stay)
            .collect()
    }

    fn start() -> (WorkerScaling, (Instant, Duration, u64)) {
        let from = (Instant::now(), Duration::ZERO, 0);
        let mut scaling = WorkerScaling::new(Workers::Auto);
        scaling.start = Some(from);
        (scaling, from)
    }

    #[test]
    fn workers_join_a_busy_loop_and_leave_a_quiet_one() {
        let (mut scaling, mut from) = start();
        assert_eq!(spans(&mut scaling, &mut from, SPANS, 20, 0.99, false), [Advice::Join(3)]);
        assert_eq!(spans(&mut scaling, &mut from, 1000, 40, 0.7, true), []);
        assert_eq!(spans(&mut scaling, &mut from, QUIET_SPANS, 0, 0.0, true), [Advice::Leave]);
    }

    #[test]
    fn useless_workers_stop_with_growing_pauses() {
        let (mut scaling, mut from) = start();
        let mut pauses = Vec::new();
        for _ in 0..3 {
            let mut waited = 0;
            while spans(&mut scaling, &mut from, 1, 20, 0.99, false).is_empty() {
                waited += 1;
            }
            pauses.push(waited);
            assert_eq!(spans(&mut scaling, &mut from, 3 * SPANS, 20, 0.7, true), [Advice::Leave]);
        }
        assert!(pauses[0] < pauses[1] && pauses[1] < pauses[2], "{pauses:?}");
    }

    #[test]
    fn waiting_or_idle_loop_gets_no_workers() {
        let (mut scaling, mut from) = start();
        assert_eq!(spans(&mut scaling, &mut from, 100, 20, 0.7, false), []);
        assert_eq!(spans(&mut scaling, &mut from, 100, 1, 0.99, false), []);
    }

    #[test]
    fn two_cores_are_reserved_for_the_two_ends() {
        let most = |cores| Workers::Auto.most(cores);
        assert_eq!([1, 2, 3, 4, 8, 16, 128].map(most), [0, 0, 1, 2, 6, 8, 8]);
        assert_eq!(Workers::None.most(64), 0);
        assert_eq!(Workers::configured(true), Workers::None);
    }

    #[test]
    fn dropping_the_pool_ends_its_threads() {
        let pool = WorkerPool::start(3).unwrap();
        pool.finish();
        assert!(pool.prepare_wait());
        pool.wake_up();
        assert!(!pool.is_ready() && !pool.help());
        drop(pool);
    }
}
