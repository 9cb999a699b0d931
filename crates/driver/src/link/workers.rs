//! The threads that seal and open a link's packets while a driver runs: started and stopped by load, and the
//! jobs that go to them and come back.

use std::time::{Duration, Instant};

use super::Link;
use crate::worker_pool::{Advice, WorkerPool, WorkerScaling, Workers};

impl Link {
    /// Sets how many threads may seal and open packets while a driver runs.
    pub const fn set_workers(&mut self, workers: Workers) {
        self.scaling = WorkerScaling::new(workers);
    }

    /// Starts or stops workers. Called once a turn of a running driver. `spun`: time that the loop spent
    /// polling without work, which looks like CPU use.
    pub(crate) fn scale_workers(&mut self, now: Instant, spun: Duration) {
        if self.lost {
            return;
        }
        let bytes = self.transport.bytes_in() + self.transport.bytes_out();
        match self.scaling.evaluate(now, spun, bytes, self.pool.is_some()) {
            Advice::Stay => {}
            Advice::Leave => self.stop_workers(),
            Advice::Join(n) => match WorkerPool::start(n) {
                Ok(pool) => {
                    self.most_workers = self.most_workers.max(pool.size());
                    self.pool = Some(pool);
                    self.transport.set_workers(true);
                }
                // The connection works without threads, and a second attempt would fail too.
                Err(_) => self.scaling = WorkerScaling::new(Workers::Exactly(0)),
            },
        }
    }

    /// Ends all threads, after finishing their jobs.
    pub(crate) fn stop_workers(&mut self) {
        if let Some(pool) = &self.pool {
            pool.finish();
            self.take_back();
            self.transport.set_workers(false);
            self.transport.run_jobs();
            self.unseen = true;
            self.pool = None;
        }
    }

    /// Submits the transport's jobs to the workers, or runs them here where there are none.
    pub(crate) fn give_out(&mut self) {
        let Some(pool) = &self.pool else { return self.transport.run_jobs() };
        while let Some(job) = self.transport.next_job() {
            pool.submit(job);
        }
    }

    /// Returns finished jobs to the transport; true when there were some.
    pub(crate) fn take_back(&mut self) -> bool {
        let Some(pool) = &self.pool else { return false };
        pool.collect(&mut self.done);
        let some = !self.done.is_empty();
        for job in self.done.drain(..) {
            self.transport.finish_job(job);
        }
        self.unseen |= some;
        some
    }

    /// Notes that the transport is about to be polled for all its events.
    pub(crate) const fn see(&mut self) {
        self.unseen = false;
    }

    /// True when a job is finished, or could be done here, so that the loop should not wait.
    pub(crate) fn has_work(&self) -> bool {
        self.unseen || (self.transport.jobs_out() > 0 && self.pool.as_ref().is_some_and(WorkerPool::is_ready))
    }

    /// Prepares for a wait; false when the loop should not wait.
    pub(crate) fn prepare_wait(&self) -> bool {
        self.transport.jobs_out() == 0 || self.pool.as_ref().is_none_or(WorkerPool::prepare_wait)
    }

    /// Ends the wait announced by [`prepare_wait`](Self::prepare_wait).
    pub(crate) fn wake_up(&self) {
        if let Some(pool) = self.pool.as_ref().filter(|_| self.transport.jobs_out() > 0) {
            pool.wake_up();
        }
    }

    /// Runs one job that no worker has taken.
    pub(crate) fn help(&self) {
        if let Some(pool) = &self.pool {
            pool.help();
        }
    }
}
