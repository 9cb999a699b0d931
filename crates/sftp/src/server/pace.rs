//! Decides how many requests are served before the engine returns to its owner, and which requests took so
//! long that it returns at once.

use std::time::Duration;

/// Duration above which a request is slow: it waits for a disk or a network, or computes. The owner's other
/// channels should not have to wait for it. Requests for many files or directory entries may take 50 µs more
/// for each file, and 5 µs more for each entry.
pub const SLOW: Duration = Duration::from_millis(1);

/// Time for each file of `get-files@longhaul` or `put-files@longhaul`. A file in the page cache takes 10 to
/// 20 µs, so a message with the usual 45 files comes close to [`SLOW`] without waiting for anything.
const FILE_TIME: Duration = Duration::from_micros(50);

/// Time for each entry of a listing. An entry with a cached inode takes 1 to 2 µs, and one answer to
/// `list-dir@longhaul` has up to some thousands of entries.
const ENTRY_TIME: Duration = Duration::from_micros(5);

/// The clock of the request that is being served.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Start of the request, by [`super::Lookup::clock`].
    began: Duration,
    /// Time that the request may take in addition to [`SLOW`].
    extra: Duration,
    /// Requests that may still be served.
    turns: usize,
}

impl Pace {
    /// Starts the first request of a poll. `turns` requests may be served in it.
    pub(super) const fn begin_poll(&mut self, turns: usize, now: Duration) {
        *self = Self { began: now, extra: Duration::ZERO, turns };
    }

    /// Takes one of the turns. Returns false if none is left.
    pub(super) const fn take_turn(&mut self) -> bool {
        let left = self.turns > 0;
        self.turns = self.turns.saturating_sub(1);
        left
    }

    /// Starts the clock of a request.
    const fn begin(&mut self, now: Duration) {
        (self.began, self.extra) = (now, Duration::ZERO);
    }

    /// Records that the request has served `files` whole files: it takes as many turns, and may take longer.
    pub(super) fn served_files(&mut self, files: u32) {
        self.turns = self.turns.saturating_sub(files as usize);
        self.extra += FILE_TIME * files;
    }

    /// Records that the request has listed `entries` entries of a directory.
    pub(super) fn listed_entries(&mut self, entries: u32) {
        self.extra += ENTRY_TIME * entries;
    }

    /// Ends the request and starts the next one. Returns true if the request was slow for its amount of work.
    pub(super) fn end(&mut self, now: Duration) -> bool {
        let slow = now.saturating_sub(self.began) > SLOW + self.extra;
        self.begin(now);
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_many_files_may_take_longer() {
        let start = Duration::from_secs(1_000_000);
        let slow_after = |micros: u64, files: u32, entries: u32| {
            let mut pace = Pace::default();
            pace.begin(start);
            pace.served_files(files);
            pace.listed_entries(entries);
            let end = start + Duration::from_micros(micros);
            let slow = pace.end(end);
            // The extra time of one request does not apply to the next.
            assert!(pace.end(end + Duration::from_micros(1001)));
            assert!(!pace.end(end + Duration::from_micros(2001)));
            slow
        };
        assert!(!slow_after(1000, 0, 0) && slow_after(1001, 0, 0));
        assert!(!slow_after(3250, 45, 0) && slow_after(3251, 45, 0));
        assert!(!slow_after(11_000, 0, 2000) && slow_after(11_001, 0, 2000));
    }
}
