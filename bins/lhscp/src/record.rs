//! Totals of a whole command over its copies, for the last event of `--json`.
//!
//! A command line can need several copies, one after the other, and a copy several attempts. Each attempt
//! adds its numbers here, and the program writes the last event in one place, whichever way it ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use lh_transfer::Summary;

use crate::limits::Verdict;
use crate::outcome::{Outcome, Reached};

/// Counts of a copy's display, shared with the record because the copy owns its display. The highest
/// rate comes from every copy, the other counts only from those by scp's old protocol: these have no
/// [`Summary`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<SeenCounts>);

#[derive(Debug, Default)]
struct SeenCounts {
    peak: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
}

impl Seen {
    /// A rate in bytes/s was reached.
    pub(crate) fn rate(&self, rate: f64) {
        self.0.peak.fetch_max(rate as u64, Ordering::Relaxed);
    }

    /// Records a copied file of this size.
    pub(crate) fn file(&self, bytes: u64) {
        self.0.files.fetch_add(1, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts an item that was not copied.
    pub(crate) fn failure(&self) {
        self.0.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// The record of one command. Clones refer to the same record.
#[derive(Debug, Clone)]
pub(crate) struct RunRecord {
    /// Names the run: unique on this host.
    pub(crate) id: String,
    /// When it began, RFC 3339.
    pub(crate) start: String,
    started: Instant,
    copies: Arc<Mutex<Copies>>,
    /// Counts that the displays of the copies see.
    pub(crate) seen: Seen,
}

/// Totals of the copies so far.
#[derive(Debug, Default)]
struct Copies {
    /// Totals of the copies that have ended.
    done: Summary,
    /// The attempts of the running copy.
    current: Option<Attempts>,
    /// The verdict about the copy that took longest, and how long it took.
    verdict: Option<(Duration, Verdict)>,
}

/// The attempts of one copy.
#[derive(Debug, Clone, Copy)]
struct Attempts {
    last: Summary,
    /// Bytes that went over the connections of the attempts before the last.
    before: u64,
}

impl Attempts {
    /// The attempts as one copy. What an earlier attempt had copied was there before the last one, and not
    /// before the first.
    fn sum(&self) -> Summary {
        let Self { last, before } = *self;
        Summary { bytes: last.bytes + before, kept: last.kept.saturating_sub(before), ..last }
    }
}

impl RunRecord {
    pub(crate) fn new() -> Self {
        let time = SystemTime::now();
        let unix = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            id: format!("{}-{}", unix.as_millis(), std::process::id()),
            start: lh_sys::time::utc_text(time),
            started: Instant::now(),
            copies: Arc::default(),
            seen: Seen::default(),
        }
    }

    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an attempt of the copy that goes on.
    pub(crate) fn attempt(&mut self, summary: Summary) {
        let mut copies = self.copies();
        let before = copies.current.map_or(0, |attempts| attempts.before + attempts.last.bytes);
        copies.current = Some(Attempts { last: summary, before });
    }

    /// Adds the verdict about an attempt that took `time`. Of a command's verdicts that about the longest
    /// attempt counts.
    pub(crate) fn judged(&mut self, time: Duration, verdict: Verdict) {
        let mut copies = self.copies();
        if copies.verdict.as_ref().is_none_or(|(longest, _)| time >= *longest) {
            copies.verdict = Some((time, verdict));
        }
    }

    /// The copy has ended, and the next begins.
    pub(crate) fn next_copy(&mut self) {
        let mut copies = self.copies();
        if let Some(attempts) = copies.current.take() {
            copies.done = sum(copies.done, attempts.sum());
        }
    }

    /// Returns the totals of all copies.
    pub(crate) fn total(&self) -> Summary {
        let (done, current) = {
            let copies = self.copies();
            (copies.done, copies.current.map(|attempts| attempts.sum()).unwrap_or_default())
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let SeenCounts { files, bytes, failures, .. } = &*self.seen.0;
        let seen = Summary {
            files: count(files),
            bytes: count(bytes),
            failures: count(failures),
            ..Summary::default()
        };
        sum(sum(done, current), seen)
    }

    /// Highest rate of any copy, bytes/s.
    pub(crate) fn peak(&self) -> f64 {
        self.seen.0.peak.load(Ordering::Relaxed) as f64
    }

    /// Seconds since the command began.
    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// Returns the limit of the command, and advice; empty if no copy was judged.
    pub(crate) fn limit(&self) -> (&'static str, String) {
        let judged = |(_, verdict): &(Duration, Verdict)| (verdict.name, verdict.advice.clone());
        self.copies().verdict.as_ref().map(judged).unwrap_or_default()
    }

    /// Returns the result of the command.
    pub(crate) fn outcome(&self, status: u8) -> Outcome {
        let total = self.total();
        let moved = total.files + total.directories > 0 || total.bytes > 0;
        let reached = match moved {
            true => Reached::Copied,
            false if total.lost => Reached::Connected,
            false => Reached::Nothing,
        };
        Outcome::of(status, reached)
    }
}

fn sum(one: Summary, other: Summary) -> Summary {
    Summary {
        files: one.files + other.files,
        unchanged: one.unchanged + other.unchanged,
        deleted: one.deleted + other.deleted,
        directories: one.directories + other.directories,
        bytes: one.bytes + other.bytes,
        kept: one.kept + other.kept,
        verified: one.verified + other.verified,
        failures: one.failures + other.failures,
        lost: one.lost || other.lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(files: u64, bytes: u64, kept: u64) -> Summary {
        Summary { files, bytes, kept, ..Summary::default() }
    }

    #[test]
    fn attempts_of_a_copy_count_once_and_copies_add_up() {
        let mut record = RunRecord::new();
        record.attempt(Summary { lost: true, ..summary(1, 100, 0) });
        record.attempt(summary(3, 200, 120));
        assert_eq!(record.total(), summary(3, 300, 20));
        record.next_copy();
        record.attempt(summary(1, 5, 0));
        assert_eq!(record.total(), summary(4, 305, 20));
    }

    #[test]
    fn each_way_to_end_has_its_outcome() {
        let mut record = RunRecord::new();
        assert_eq!(
            [0, 1, 255, 130].map(|status| record.outcome(status).name()),
            ["complete", "failed", "no_connection", "interrupted"]
        );
        record.attempt(summary(1, 10, 0));
        assert_eq!([1, 255].map(|status| record.outcome(status).name()), ["partial", "lost"]);
    }

    #[test]
    fn the_longest_attempt_is_judged() {
        let mut record = RunRecord::new();
        let verdict = |name| Verdict { name, what: String::new(), advice: String::new() };
        for (seconds, name) in [(1, "disk"), (5, "loss"), (2, "server")] {
            record.judged(Duration::from_secs(seconds), verdict(name));
        }
        assert_eq!(record.limit().0, "loss");
    }
}
