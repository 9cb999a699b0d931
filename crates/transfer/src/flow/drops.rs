//! How many requests a server is sent after it has dropped some.

/// Requests in flight at most, after each time that some were dropped.
const FEWER: [usize; 3] = [64, 8, 1];

/// How often requests were dropped, and how many the server was found to answer since.
#[derive(Debug)]
pub(crate) struct Drops {
    times: u32,
    most_requests: usize,
}

impl Default for Drops {
    fn default() -> Self {
        Self { times: 0, most_requests: usize::MAX }
    }
}

impl Drops {
    /// A server has dropped requests: fewer at a time from now on. Returns how many.
    pub(crate) fn note(&mut self) -> usize {
        let fewer = FEWER[(self.times as usize).min(FEWER.len() - 1)];
        self.times = self.times.saturating_add(1);
        self.most_requests = self.most_requests.min(fewer);
        self.most_requests
    }

    /// Returns how often requests were dropped.
    pub(crate) const fn times(&self) -> u32 {
        self.times
    }

    /// Requests that may be in flight; any number where none was dropped.
    pub(super) const fn most_requests(&self) -> usize {
        self.most_requests
    }
}
