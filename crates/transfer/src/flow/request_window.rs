//! Decides how much to request of a server at a time: the capacity of the path, and a reserve.
//!
//! What was asked for and has not come is on its way, or waits in the server. A server that produces faster
//! than the path carries keeps the rest: OpenSSH's copies all it keeps for each piece that is added, and with
//! some 20 MB stands still for a second at a time. What comes in a round trip is what the path holds, as long
//! as there is always more to send; half as much again, and some megabytes, keep a TCP busy that doubles its
//! rate.

use std::time::{Duration, Instant};

/// Bytes that may be requested beyond one and a half times the path's capacity.
const BESIDES: u64 = 4 << 20;

/// Measurements of which the largest counts: a pause of the other end says nothing about the path.
const MEASUREMENTS: usize = 16;

/// Shorter round trips are all treated alike: next to [`BESIDES`] they hold nothing.
const LEAST: Duration = Duration::from_millis(1);

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct RequestWindow {
    /// The shortest that has been seen.
    round_trip: Option<Duration>,
    /// When the round trip began that is being measured, and what has come in it.
    epoch: Option<(Instant, u64)>,
    held: [u64; MEASUREMENTS],
    measured: usize,
}

impl RequestWindow {
    /// Takes in the time that the answer to a request took.
    pub(super) fn round_trip(&mut self, took: Duration) {
        let took = took.max(LEAST);
        self.round_trip = Some(self.round_trip.map_or(took, |shortest| shortest.min(took)));
    }

    /// `len` bytes came of what was asked for.
    pub(super) fn on_data(&mut self, len: u64, now: Instant) {
        let (from, bytes) = self.epoch.get_or_insert((now, 0));
        *bytes += len;
        let took = now.saturating_duration_since(*from);
        let Some(round_trip) = self.round_trip.filter(|&round_trip| took >= round_trip) else { return };
        // It lasts longer when nothing comes for a while, or this process did not get to run: what counts is
        // the rate.
        let holds = u128::from(*bytes) * round_trip.as_nanos() / took.as_nanos().max(1);
        self.held[self.measured % MEASUREMENTS] = u64::try_from(holds).unwrap_or(u64::MAX);
        self.measured += 1;
        self.epoch = Some((now, 0));
    }

    /// The most to be asked for at a time, bytes; `None` while nothing has been measured.
    pub(super) fn most(&self) -> Option<u64> {
        let holds = self.held.iter().copied().max().filter(|_| self.measured > 0)?;
        Some(holds.saturating_add(holds / 2).saturating_add(BESIDES))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A server that answers at once, behind a path that carries `rate` bytes a second after half a round
    /// trip, as a TCP would that doubles its rate each round trip until the path and a queue of the same size
    /// are full.
    struct Model {
        rate: f64,
        rtt: f64,
        chunk: u64,
    }

    /// What came of it: share of the rate over the second half, bytes that waited in the server at most in
    /// that time.
    fn run(model: &Model, seconds: f64, limit: bool) -> (f64, u64) {
        let (start, mut window) = (Instant::now(), RequestWindow::default());
        window.round_trip(Duration::from_secs_f64(model.rtt));
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let step = model.rtt / 50.0;
        let full = model.rate * model.rtt * 2.0;
        let (mut congestion, mut depth, mut now) = (64e3_f64, 4_u64 << 20, 0.0_f64);
        let mut asked = 0_u64;
        // Asked for and not seen by the server; in the server; on the path back, each with its time.
        let (mut to_server, mut server, mut back) = (VecDeque::new(), 0_u64, VecDeque::<(f64, u64)>::new());
        let (mut flying, mut line_free) = (0_u64, 0.0_f64);
        let (mut half, mut worst) = (0_u64, 0_u64);
        while now < seconds {
            while back.front().is_some_and(|&(when, _)| when <= now) {
                let Some((_, len)) = back.pop_front() else { break };
                flying -= len;
                asked -= len;
                depth += len;
                congestion = (congestion + len as f64).min(full);
                window.on_data(len, at(now));
                if now > seconds / 2.0 {
                    half += len;
                }
            }
            let most = if limit { window.most().unwrap_or(u64::MAX) } else { u64::MAX };
            while asked < depth.min(most).min(64 << 20) {
                to_server.push_back(now + model.rtt / 2.0);
                asked += model.chunk;
            }
            while to_server.front().is_some_and(|&when| when <= now) {
                to_server.pop_front();
                server += model.chunk;
            }
            while server >= model.chunk && (flying + model.chunk) as f64 <= congestion.max(model.chunk as f64)
            {
                server -= model.chunk;
                flying += model.chunk;
                line_free = line_free.max(now) + model.chunk as f64 / model.rate;
                back.push_back((line_free + model.rtt / 2.0, model.chunk));
            }
            if now > seconds / 2.0 {
                worst = worst.max(server);
            }
            now += step;
        }
        (half as f64 / (model.rate * seconds / 2.0), worst)
    }

    #[test]
    fn the_path_stays_full_and_little_waits_in_the_server() {
        for (rate, rtt) in [(250e6, 0.05), (125e6, 0.1), (12e6, 0.2), (1e9, 0.01), (500e6, 0.001)] {
            let model = Model { rate, rtt, chunk: 255 << 10 };
            let (share, waited) = run(&model, 40.0 * rtt.max(0.05), true);
            assert!(share > 0.97, "{rate} x {rtt}: {share}");
            // Never more than the few megabytes to begin with, and what the queue of the path has not taken.
            assert!(waited <= BESIDES + (1 << 20), "{rate} x {rtt}: {waited}");
        }
    }

    #[test]
    fn without_it_the_server_keeps_whatever_it_is_asked_for() {
        let model = Model { rate: 250e6, rtt: 0.05, chunk: 255 << 10 };
        assert!(run(&model, 4.0, false).1 > 30 << 20);
    }

    #[test]
    fn a_pause_of_the_server_is_forgotten_only_when_it_lasts() {
        let (start, mut window) = (Instant::now(), RequestWindow::default());
        window.on_data(1 << 20, start);
        assert_eq!(window.most(), None, "nothing is known of the path");
        window.round_trip(Duration::from_millis(50));
        window.round_trip(Duration::from_millis(70));
        let mut now = start;
        let mut come = |window: &mut RequestWindow, after: u64| {
            now += Duration::from_millis(after);
            window.on_data(10 << 20, now);
            window.most()
        };
        come(&mut window, 50);
        let most = come(&mut window, 50);
        assert!(most >= Some(BESIDES + (15 << 20)), "{most:?}");
        for _ in 2..MEASUREMENTS {
            assert!(come(&mut window, 2_000) >= Some(BESIDES + (15 << 20)));
        }
        come(&mut window, 2_000);
        assert!(come(&mut window, 2_000) < most);
    }
}
