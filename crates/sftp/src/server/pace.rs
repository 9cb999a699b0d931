//! Decides how many requests are served before the owner of the engine gets its turn, and which took so long that
//! it should not wait.

use std::time::Duration;

/// A request that takes longer than this waits for a disk or a network, or computes: the owner of other
/// channels should not wait with it. Requests that serve many files or directory entries get 50 µs more for
/// each file, and 5 µs for each entry.
pub const SLOW: Duration = Duration::from_millis(1);

/// Time for each file of `get-files@longhaul` or `put-files@longhaul`. A file in the page cache takes 10 to
/// 20 µs, so a message with the usual 45 files comes close to [`SLOW`] without waiting for anything.
const FILE_TIME: Duration = Duration::from_micros(50);

/// Time for each entry of a listing. An entry whose inode is cached takes 1 to 2 µs, and one answer to
/// `list-dir@longhaul` has up to some thousands of them.
const ENTRY_TIME: Duration = Duration::from_micros(5);

/// The clock of the request that is being served.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// By [`super::Lookup::clock`].
    began: Duration,
    /// What the request may take besides [`SLOW`].
    extra: Duration,
    /// Requests that may still be served.
    turns: usize,
}

impl Pace {
    /// `turns` requests may be served from now on, and the first one begins.
    pub(super) const fn begin_poll(&mut self, turns: usize, now: Duration) {
        *self = Self { began: now, extra: Duration::ZERO, turns };
    }

    /// Takes one of the turns; false when none is left.
    pub(super) const fn take_turn(&mut self) -> bool {
        let left = self.turns > 0;
        self.turns = self.turns.saturating_sub(1);
        left
    }

    /// A request begins.
    const fn begin(&mut self, now: Duration) {
        (self.began, self.extra) = (now, Duration::ZERO);
    }

    /// The request has served `files` whole files: it counts as so many requests, and may take longer.
    pub(super) fn served_files(&mut self, files: u32) {
        self.turns = self.turns.saturating_sub(files as usize);
        self.extra += FILE_TIME * files;
    }

    /// The request has listed `entries` entries of a directory.
    pub(super) fn listed_entries(&mut self, entries: u32) {
        self.extra += ENTRY_TIME * entries;
    }

    /// The request ends and the next one begins. Returns whether it was slow for what it did.
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
            // What one request did counts for no other.
            assert!(pace.end(end + Duration::from_micros(1001)));
            assert!(!pace.end(end + Duration::from_micros(2001)));
            slow
        };
        assert!(!slow_after(1000, 0, 0) && slow_after(1001, 0, 0));
        assert!(!slow_after(3250, 45, 0) && slow_after(3251, 45, 0));
        assert!(!slow_after(11_000, 0, 2000) && slow_after(11_001, 0, 2000));
    }
}
