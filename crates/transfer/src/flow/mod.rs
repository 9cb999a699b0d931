//! Limits of what a copy has under way: bytes and requests in flight, files opened ahead, the rate.
//!
//! Pure: what was sent, answered and measured goes in, what may follow comes out. It knows neither files nor
//! servers.
//!
//! | module | what |
//! |---|---|
//! | [`drops`] | fewer requests for servers that drop some |
//! | [`in_flight`] | counts of what is in flight |
//! | [`open_ahead`] | files that are open before their data are requested |
//! | [`rate_limit`] | bytes per second |
//! | [`request_window`] | what the path holds of what a server sends |
//! | [`short_path`] | less is worth having in flight where the path is short |
//! | [`silence`] | servers that drop requests |

mod drops;
mod in_flight;
mod open_ahead;
mod rate_limit;
mod request_window;
mod short_path;
mod silence;

use std::time::{Duration, Instant};

pub(crate) use rate_limit::{Limiter, RateLimit};
pub(crate) use silence::{Next, Silence};

use crate::options::Limits;

use drops::Drops;
use in_flight::InFlight;
use open_ahead::OpenAhead;
use request_window::RequestWindow;
use short_path::ShortPath;

/// Bytes of one range that a comparison reads.
pub(crate) const SAMPLE: u64 = 32 * 1024;

/// Data in flight to begin with; grows by what is answered.
const FIRST_DEPTH: u64 = 4 << 20;

/// Requests in flight to begin with, for servers whose small requests would make [`FIRST_DEPTH`] many of
/// them. On one channel of a server that is not known to take more, unless the user says otherwise, it stays
/// so: every client has had 64 of them in flight for decades.
pub(crate) const FIRST_REQUESTS: usize = 64;

/// Requests that may be in flight to servers that take many and have sent their limits: such servers are
/// recent, and small files need that many.
const FIRST_REQUESTS_KNOWN: usize = 256;

/// Requests in flight at most on one channel of any server, unless the user says otherwise: servers exist
/// that drop what is beyond.
const MAX_REQUESTS: usize = 1024;

/// Requests in flight at most on one channel, unless the user says otherwise; `take_many`: hundreds of them
/// may wait at the server.
pub(crate) const fn most_on_a_channel(take_many: bool) -> usize {
    if take_many { MAX_REQUESTS } else { FIRST_REQUESTS }
}

/// Bytes in flight at most on a channel of a server that may stop when the channel's window is used up. Half
/// of the window, which is 2 MiB or more unless `HPNBufferSize` says less, may be used up before the server
/// is granted more.
const BELOW_WINDOW: u64 = 1 << 20;

/// What is fixed when a copy begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Set by the user.
    pub(crate) limits: Limits,
    /// Between two remote ends, which measure no path of ours: all that fits is worth having in flight.
    pub(crate) relay: bool,
    /// Descriptors this process may have.
    pub(crate) descriptors: usize,
}

#[cfg(test)]
impl Bounds {
    /// For tests of the parts that have a [`Flow`]: one MiB in flight, nothing said by the user.
    pub(crate) fn for_tests() -> Self {
        let limits = Limits { bytes_in_flight: 1 << 20, open_files: 100, ..Limits::default() };
        Self { limits, relay: false, descriptors: 100 }
    }
}

/// Properties that all servers of a copy have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Servers {
    /// They have sent their limits.
    pub(crate) told_limits: bool,
    /// Hundreds of requests may wait there.
    pub(crate) take_many: bool,
    /// The source's is of another make, which has in memory what it is asked for before that is on its way.
    pub(crate) measured: bool,
    /// The source's may stop for good when the window of its channel is used up.
    pub(crate) stops_at_full_window: bool,
    /// Channels in use.
    pub(crate) channels: usize,
}

/// How much may be in flight, and open, at a time.
#[derive(Debug)]
pub(crate) struct Flow {
    bounds: Bounds,
    pub(crate) in_flight: InFlight,
    /// Bytes that may be in flight.
    depth: u64,
    /// Requests that have become allowed beyond those of the beginning.
    more_requests: usize,
    pub(crate) ahead: OpenAhead,
    pub(crate) rate: RateLimit,
    pub(crate) drops: Drops,
    window: RequestWindow,
    short: ShortPath,
    /// When to look whether the servers answer.
    look_at: Option<Instant>,
}

impl Flow {
    pub(crate) fn new(bounds: Bounds, now: Instant) -> Self {
        Self {
            bounds,
            in_flight: InFlight::default(),
            depth: FIRST_DEPTH.min(bounds.limits.bytes_in_flight),
            more_requests: 0,
            ahead: OpenAhead::default(),
            rate: RateLimit::new(bounds.limits.bits_per_second, now),
            drops: Drops::default(),
            window: RequestWindow::default(),
            short: ShortPath::default(),
            look_at: None,
        }
    }

    /// A request for `len` bytes goes out. One for bytes that were asked for before counts only as in flight,
    /// not for the rate.
    pub(crate) fn request(&mut self, len: u64) {
        self.in_flight.request(len);
        self.rate.spend(len);
    }

    /// `len` bytes were confirmed: a little more may be in flight.
    pub(crate) fn grow(&mut self, len: u64) {
        self.depth = (self.depth + len).min(self.bounds.limits.bytes_in_flight);
        self.more_requests = self.more_requests.saturating_add(1);
    }

    /// `len` bytes have come that were asked for.
    pub(crate) fn on_data(&mut self, len: u64, now: Instant) {
        self.window.on_data(len, now);
        self.grow(len);
    }

    /// Returns true when more may be in flight.
    pub(crate) fn has_room(&self, servers: Servers) -> bool {
        let compared = self.in_flight.comparisons() as u64 * SAMPLE;
        let most = BELOW_WINDOW * servers.channels as u64;
        let is_below_window = !servers.stops_at_full_window || self.in_flight.bytes() + compared < most;
        is_below_window && self.has_room_up_to(self.max_requests(servers), servers.measured)
    }

    fn has_room_up_to(&self, max_requests: usize, measured: bool) -> bool {
        let window = if measured { self.window.most().unwrap_or(u64::MAX) } else { u64::MAX };
        let requests = self.in_flight.requests() + self.in_flight.comparisons();
        self.in_flight.bytes_with_held() < self.depth.min(window) && requests < max_requests
    }

    /// A range of a file was compared; `came`: the server has sent it.
    pub(crate) const fn compared(&mut self, came: bool) {
        self.in_flight.compared();
        if came {
            self.more_requests = self.more_requests.saturating_add(1);
        }
    }

    /// Returns how many ranges of one file, which has `own` in flight, may be asked for at a time while
    /// `files` files are compared: they may all go over one channel. At least one, so that each file
    /// goes on by its own answers.
    pub(crate) fn comparisons_of_each(&self, files: usize, own: usize, servers: Servers) -> usize {
        let mut most = self.max_requests(Servers { channels: 1, ..servers });
        if servers.stops_at_full_window {
            most = most.min((BELOW_WINDOW / SAMPLE) as usize);
        }
        let others = self.in_flight.requests() / servers.channels.max(1);
        let most = most.saturating_sub(others);
        let room = most.saturating_sub(self.in_flight.comparisons());
        (most / files.max(1)).min(own + room).max(1)
    }

    /// Returns true when another `len` bytes of small files may be put together, of those that are `worth`
    /// having in flight.
    pub(crate) fn has_room_for_batch(&self, len: u64, worth: u64) -> bool {
        self.in_flight.bytes() + len < self.depth.min(worth)
    }

    /// Requests that may be in flight on all channels together.
    fn max_requests(&self, servers: Servers) -> usize {
        let found = self.drops.most_requests();
        if let Some(fixed) = self.bounds.limits.requests {
            return fixed.max(1).min(found);
        }
        let Servers { told_limits, take_many, channels, .. } = servers;
        let first = if told_limits && take_many { FIRST_REQUESTS_KNOWN } else { FIRST_REQUESTS };
        let most = most_on_a_channel(take_many) * channels;
        first.saturating_add(self.more_requests).min(most).min(found)
    }

    /// Requests of `chunk` bytes that each of several channels may have on its way, so that all have
    /// something to do; any number where there is one.
    pub(crate) fn share(&self, chunk: u64, servers: Servers) -> u64 {
        let (max_requests, channels) = (self.max_requests(servers), servers.channels);
        if channels < 2 {
            return u64::MAX;
        }
        ((self.depth / chunk.max(1)).min(max_requests as u64) / channels as u64).max(2)
    }

    /// Files that may be open at a time: most of what each end can hold, as directories and others want some
    /// too. `servers`: the fewest handles that a server has for us.
    pub(crate) fn max_open(&self, servers: Option<usize>) -> usize {
        let Bounds { limits, descriptors, .. } = self.bounds;
        let most = limits.open_files.min(self.drops.most_requests());
        (servers.unwrap_or(usize::MAX).min(descriptors) / 4 * 3).clamp(1, most.max(1))
    }

    /// Directories that may be open on an end at a time; `server`: the handles that it has, where it is
    /// remote.
    pub(crate) fn max_open_dirs(&self, server: Option<usize>) -> usize {
        (server.unwrap_or(self.bounds.descriptors) / 4).max(1)
    }

    /// Bytes of a request to a server that takes up to `server`; with a rate limit few, so that it is kept
    /// evenly.
    pub(crate) fn request_bytes(&self, server: u32) -> u64 {
        let evenly = self.rate.request_bytes();
        let user = self.bounds.limits.request_bytes.unwrap_or(u32::MAX);
        u64::from(server.min(user).min(evenly).max(1))
    }

    pub(crate) const fn look_for_answers_at(&mut self, at: Option<Instant>) {
        self.look_at = at;
    }

    /// When something may go on although nothing has come.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        [self.rate.deadline(), self.look_at].into_iter().flatten().min()
    }

    /// Takes in the round-trip time that the kernel has measured for the connection.
    pub(crate) const fn expect_round_trip(&mut self, took: Duration) {
        self.short.expect_round_trip(took);
    }

    /// Takes in the round-trip time of a request about a file.
    pub(crate) fn round_trip(&mut self, took: Duration) {
        self.window.round_trip(took);
        self.short.question_took(took);
    }

    /// Takes in the time that a batch of small files took.
    pub(crate) fn batch_took(&mut self, took: Duration) {
        self.short.batch_took(took);
    }

    /// Returns how many bytes of small files to have in flight over this number of channels, if `found` bytes
    /// were found so far. More would not make the copy faster.
    pub(crate) fn worth_in_flight(&self, found: u64, channels: usize) -> u64 {
        if self.bounds.relay { u64::MAX } else { self.short.worth_in_flight(found, channels) }
    }

    /// Returns how many files to have open over this number of channels, if `found` files were found so far.
    pub(crate) fn worth_open(&self, found: u64, channels: usize) -> usize {
        if self.bounds.relay { usize::MAX } else { self.short.worth_open(found, channels) }
    }
}

#[cfg(test)]
mod tests;
