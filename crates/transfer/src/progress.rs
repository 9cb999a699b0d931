//! Progress of a copy, and the time that it has waited.

use std::time::{Duration, Instant};

use crate::Waits;

/// Files that were found, and times. The time of the last call is here, too: the engine has no clock.
#[derive(Debug)]
pub(crate) struct Progress {
    next_file_id: u64,
    /// Number of ids that went to items that are not files.
    pub(crate) not_files: u64,
    /// Bytes of all files that have been opened.
    pub(crate) bytes_found: u64,
    pub(crate) waits: Waits,
    waiting_since: Option<(Wait, Instant)>,
    /// Pieces of work on files that threads are doing now.
    work_out: u32,
    /// When the engine was called last.
    pub(crate) now: Instant,
}

impl Progress {
    pub(crate) fn new(now: Instant) -> Self {
        let waits = Waits::default();
        Self { next_file_id: 0, not_files: 0, bytes_found: 0, waits, waiting_since: None, work_out: 0, now }
    }

    pub(crate) const fn new_file_id(&mut self) -> u64 {
        self.next_file_id += 1;
        self.next_file_id - 1
    }

    /// Ids that were given.
    pub(crate) const fn ids(&self) -> u64 {
        self.next_file_id
    }

    /// Files that were found so far and have an id.
    pub(crate) const fn files_found(&self) -> u64 {
        self.next_file_id.saturating_sub(self.not_files)
    }

    /// A thread begins to read or write.
    pub(crate) const fn begin_file_work(&mut self) {
        self.work_out += 1;
    }

    /// Counts the time that a piece of work took. Of several at a time each counts for its part: the sum is
    /// never more than the time that passed.
    pub(crate) fn end_file_work(&mut self, took: Duration) {
        self.waits.disk += took / self.work_out.max(1);
        self.work_out = self.work_out.saturating_sub(1);
    }

    /// Nothing more can be done now, because of `wait`.
    pub(crate) const fn begin_wait(&mut self, wait: Wait, now: Instant) {
        self.waiting_since = Some((wait, now));
    }

    pub(crate) fn end_wait(&mut self, now: Instant) {
        if let Some((wait, since)) = self.waiting_since.take() {
            let passed = now.saturating_duration_since(since);
            match wait {
                Wait::Window => self.waits.window += passed,
                Wait::Answers => self.waits.answers += passed,
            }
        }
    }
}

/// Cause of a wait in which the copy can do nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    Window,
    Answers,
}

/// The file whose data move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current<'a> {
    /// Identifies the file.
    pub id: u64,
    /// The last component of the source's name.
    pub name: &'a [u8],
    /// Bytes confirmed by the target, and those that were there before.
    pub done: u64,
    /// Bytes to be copied; grows when the source turns out longer.
    pub size: u64,
    /// Bytes that were there before, of a copy that is resumed.
    pub kept: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_summed_by_their_reason() {
        let begin = Instant::now();
        let mut progress = Progress::new(begin);
        progress.end_wait(begin);
        for (wait, seconds) in [(Wait::Window, 1), (Wait::Answers, 2), (Wait::Window, 4)] {
            progress.begin_wait(wait, begin);
            progress.end_wait(begin + Duration::from_secs(seconds));
            progress.end_wait(begin + Duration::from_secs(100));
        }
        let waits = progress.waits;
        assert_eq!((waits.window, waits.answers), (Duration::from_secs(5), Duration::from_secs(2)));
    }
}
