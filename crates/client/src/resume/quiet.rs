//! Decides when silence on a link is a reason to query the server, in virtual time.
//!
//! Silence alone means little, because the server may have nothing to send. It is suspicious after much data,
//! or while sent data stays unacknowledged: even a busy server's kernel acknowledges without delay.

use std::time::{Duration, Instant};

/// Silence, after messages of the session, before the server is queried.
const QUIET: Duration = Duration::from_secs(2);

/// Longest silence after an answer before the next query. The silence doubles with each query, so a path
/// that was lost in a pause is noticed after as much time again; later, keepalives query the server.
const LONGEST_QUIET: Duration = Duration::from_secs(8);

/// Messages after which one query is enough: a keepalive and the first query, with their answers.
const FEW: u64 = 4;

/// Silence before a query where it is suspicious: longer than TCP's delayed acknowledgements, and than its
/// retransmission timeout on a short path.
const EARLY: Duration = Duration::from_millis(300);

/// Bytes since the last query after which silence is suspicious, because a transfer may have stopped.
/// Question and answer are less than a hundredth of them. A client that only receives waits for no
/// acknowledgement: if the path has lost the server's packets, the question is what shows it.
const BULK: u64 = 32 << 10;

/// Amounts of data and messages on the link.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LinkAmounts {
    /// Messages of the session, sent and received.
    pub(super) messages: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

impl LinkAmounts {
    const fn bytes(self) -> u64 {
        self.bytes_in + self.bytes_out
    }
}

/// Why the server should be queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// The silence is suspicious.
    Early,
    /// The silence is long.
    Late,
}

/// The silence on a link. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// Amounts at the last call.
    seen: LinkAmounts,
    /// Number of bytes at the last query.
    asked: u64,
    /// Start of the silence after messages of the session; `None` while there is no reason to query.
    since: Option<Instant>,
    /// When to check whether the silence is suspicious; `None` when that was done and nothing was sent since.
    look: Option<Instant>,
    /// Silence before the next query.
    pause: Duration,
    /// The silence after the answer to the last query, before the next one.
    next_pause: Option<Duration>,
    /// Number of messages when the last silence became a rest, in which only keepalives are sent.
    rested: u64,
    round_trip: Duration,
}

impl Quiet {
    /// Records that the link is a new one. The server may have to deliver what the last one lost, and nothing
    /// that this end sends need start a measurement, so one begins.
    pub(super) fn on_new_link(&mut self, moved: LinkAmounts, now: Instant) {
        (self.seen, self.asked, self.rested) = (moved, moved.bytes(), moved.messages);
        self.begin(now);
    }

    pub(super) const fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// Stops queries until messages of the session are sent or received.
    pub(super) const fn stop(&mut self) {
        (self.since, self.look) = (None, None);
    }

    /// Begins the measurement of a silence.
    fn begin(&mut self, now: Instant) {
        (self.since, self.look, self.pause) = (Some(now), Some(now + self.early()), QUIET);
    }

    /// Records an answer of the server. `alone`: no other data came with it, so the next query is late.
    pub(super) fn on_answer(&mut self, moved: LinkAmounts, alone: bool, now: Instant) {
        self.seen = moved;
        self.stop();
        let is_rest = moved.messages.saturating_sub(self.rested) <= FEW;
        match self.next_pause.take().filter(|pause| *pause <= LONGEST_QUIET && !is_rest) {
            _ if !alone => self.begin(now),
            Some(pause) => (self.since, self.pause) = (Some(now), pause),
            None => self.rested = moved.messages,
        }
    }

    /// Returns whether to query the server now. `unacknowledged` returns whether TCP waits for an
    /// acknowledgement.
    pub(super) fn poll(
        &mut self,
        moved: LinkAmounts,
        unacknowledged: impl FnOnce() -> bool,
        now: Instant,
    ) -> Option<Ask> {
        let before = std::mem::replace(&mut self.seen, moved);
        let (flows, begins) = (before.bytes_in != moved.bytes_in, before.messages != moved.messages);
        // Acknowledgements are bytes too, but start no measurement; and sent data does not extend one.
        if (begins && self.since.is_none()) || (flows && (begins || self.since.is_some())) {
            self.begin(now);
            return None;
        }
        let since = self.since?;
        // What was sent in the silence, as a key or an acknowledgement, has to be acknowledged in turn.
        if self.look.is_none() && before.bytes_out != moved.bytes_out {
            self.look = Some(now + self.early());
        }
        let ask = if since + self.pause <= now {
            self.next_pause = Some(self.pause * 2);
            Ask::Late
        } else if self.look.is_some_and(|look| look <= now) {
            self.look = None;
            let bulk = moved.bytes().saturating_sub(self.asked) >= BULK;
            let ask = (bulk || unacknowledged()).then_some(Ask::Early)?;
            self.next_pause = Some(QUIET);
            ask
        } else {
            return None;
        };
        self.stop();
        self.asked = moved.bytes();
        Some(ask)
    }

    /// Returns the silence before an early query: data may come in bursts, one in each round trip.
    fn early(&self) -> Duration {
        EARLY.max(self.round_trip * 2).min(QUIET)
    }

    /// Returns the time at which to call [`poll`](Self::poll).
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let late = self.since? + self.pause;
        Some(self.look.map_or(late, |look| look.min(late)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a link from its first message on; `moved` returns the amounts at a time in milliseconds.
    /// Returns the first query.
    fn play(
        quiet: &mut Quiet,
        moved: impl Fn(u64) -> LinkAmounts,
        unacknowledged: bool,
        time: u64,
    ) -> Option<(u64, Ask)> {
        let start = Instant::now();
        (0..time).step_by(10).find_map(|ms| {
            let now = start + Duration::from_millis(ms);
            quiet.poll(moved(ms), || unacknowledged, now).map(|ask| (ms, ask))
        })
    }

    /// A download of 10 MB/s that stops.
    fn download(until: u64) -> impl Fn(u64) -> LinkAmounts {
        move |ms| {
            let ms = ms.min(until);
            LinkAmounts { messages: 1 + ms, bytes_in: ms * 10_000, bytes_out: ms }
        }
    }

    #[test]
    fn silence_in_a_download_is_suspicious() {
        let mut quiet = Quiet::default();
        assert_eq!(play(&mut quiet, download(1000), false, 9000), Some((1300, Ask::Early)));
        // Over a long path, the silence may be a pause between two bursts.
        let mut quiet = Quiet::default();
        quiet.set_round_trip(Duration::from_millis(400));
        assert_eq!(play(&mut quiet, download(1000), false, 9000), Some((1800, Ask::Early)));
        assert_eq!(play(&mut Quiet::default(), download(9000), false, 9000), None);
    }

    #[test]
    fn a_new_link_that_delivers_nothing_is_suspicious() {
        let lost = download(1000)(1000);
        let mut quiet = Quiet::default();
        quiet.on_new_link(lost, Instant::now());
        assert_eq!(play(&mut quiet, |_| lost, false, 9000), Some((2000, Ask::Late)));
        quiet.on_new_link(lost, Instant::now());
        assert_eq!(play(&mut quiet, |_| lost, true, 9000), Some((300, Ask::Early)));
    }

    #[test]
    fn keys_without_echo_count_only_without_acknowledgement() {
        let keys = |ms: u64| LinkAmounts { messages: 1 + ms / 100, bytes_in: 100, bytes_out: ms };
        assert_eq!(play(&mut Quiet::default(), keys, true, 9000), Some((300, Ask::Early)));
        // A program that does not echo, on a working path.
        assert_eq!(play(&mut Quiet::default(), keys, false, 9000), Some((2000, Ask::Late)));
    }

    #[test]
    fn keys_in_a_silence_need_an_acknowledgement_soon() {
        // The path is lost after the echo of the first key; the next key is typed 500 ms later.
        let keys = |ms: u64| LinkAmounts {
            messages: 1 + u64::from(ms >= 500),
            bytes_in: 100,
            bytes_out: if ms < 500 { 100 } else { 200 },
        };
        let mut quiet = Quiet::default();
        let start = Instant::now();
        let asked = (0..9000).step_by(10).find_map(|ms| {
            let now = start + Duration::from_millis(ms);
            quiet.poll(keys(ms), || ms >= 500, now).map(|ask| (ms, ask))
        });
        assert_eq!(asked, Some((800, Ask::Early)));
        assert_eq!(play(&mut Quiet::default(), keys, false, 9000), Some((2000, Ask::Late)));
    }

    #[test]
    fn silence_after_a_short_burst_is_suspicious() {
        let mut quiet = Quiet::default();
        assert_eq!(play(&mut quiet, download(1000), false, 9000), Some((1300, Ask::Early)));
        // Another 40 kB arrive after that question was answered.
        let last = download(1000)(1000);
        quiet.on_answer(last, true, Instant::now());
        let burst = |ms: u64| LinkAmounts {
            messages: last.messages + ms.min(50) / 10,
            bytes_in: last.bytes_in + ms.min(50) * 800,
            ..last
        };
        assert_eq!(play(&mut quiet, burst, false, 9000), Some((350, Ask::Early)));
    }

    #[test]
    fn a_pause_after_an_answer_is_not_suspicious() {
        let mut quiet = Quiet::default();
        let last = download(1000)(1000);
        assert_eq!(play(&mut quiet, download(1000), false, 9000), Some((1300, Ask::Early)));
        quiet.on_answer(last, false, Instant::now());
        assert_eq!(play(&mut quiet, |_| last, false, 9000), Some((2000, Ask::Late)));
    }

    /// What the server sends after a pause may be lost on its way, and then nothing here shows it.
    #[test]
    fn queries_in_a_pause_become_rare_and_end() {
        let mut quiet = Quiet::default();
        let last = download(1000)(1000);
        assert_eq!(play(&mut quiet, download(1000), false, 9000), Some((1300, Ask::Early)));
        for pause in [2000, 4000, 8000] {
            quiet.on_answer(last, true, Instant::now());
            assert_eq!(play(&mut quiet, |_| last, true, 20_000), Some((pause, Ask::Late)));
        }
        quiet.on_answer(last, true, Instant::now());
        assert_eq!((play(&mut quiet, |_| last, true, 20_000), quiet.next_deadline()), (None, None));
        // A keepalive and its answer are followed by one query.
        let kept = |ms: u64| LinkAmounts {
            messages: last.messages + 1 + u64::from(ms >= 20),
            bytes_in: last.bytes_in + if ms < 20 { 0 } else { 40 },
            bytes_out: last.bytes_out + 80,
        };
        assert_eq!(play(&mut quiet, kept, false, 9000), Some((2020, Ask::Late)));
        let messages = kept(9000).messages + 2;
        quiet.on_answer(LinkAmounts { messages, ..kept(9000) }, true, Instant::now());
        assert_eq!(quiet.next_deadline(), None);
    }
}
