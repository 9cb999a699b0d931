//! Ends transfers early that are only compared with another rate, once their own stands still near it.

use std::sync::{Mutex, PoisonError};

/// Two rates within this factor are alike.
pub(crate) const ALIKE: f64 = 1.2;
/// Change of a rate from one window to the next within which it stands still, part of it.
const STANDS_STILL: f64 = 0.1;
/// Windows are of this length at least, seconds, and have as many round trips.
const LEAST_WINDOW: f64 = 0.4;
const ROUND_TRIPS: f64 = 4.0;

/// Transfers at a time whose rate together is compared with another.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// The other rate, bytes/s.
    like: f64,
    /// Length of the two windows whose rates are compared, seconds.
    window: f64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The counter of each connection when it was told first, and its growth since.
    moved: Vec<(Option<u64>, u64)>,
    /// When the first connection was told, seconds, and the bytes of all until then, since all move data.
    points: Vec<(f64, u64)>,
    is_steady: bool,
    /// One of the connections has moved its data: from then on, the others have the path for themselves.
    has_ended: bool,
}

/// Part of the time of all connections that is not counted: TCP's slow start.
const WARM_UP: f64 = 0.3;

impl Comparison {
    /// Compares `connections` together with the rate `like`, bytes/s, over a round trip, seconds.
    pub(crate) fn new(like: f64, round_trip: f64, connections: usize) -> Self {
        let window = LEAST_WINDOW.max(ROUND_TRIPS * round_trip);
        let state = State { moved: vec![(None, 0); connections], ..State::default() };
        Self { like, window, state: Mutex::new(state) }
    }

    /// Takes note of a connection's counter of bytes at a time of its own clock, seconds. Returns for how
    /// many seconds the rate of all has stood still near the other, where the comparison needs no more.
    pub(crate) fn moved(&self, index: usize, now: f64, bytes: u64) -> Option<f64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((first, grown)) = state.moved.get_mut(index) {
            *grown = bytes.saturating_sub(*first.get_or_insert(bytes));
        }
        // A connection whose command starts late is not a slow one: until then, the others say
        // nothing of all.
        let have_begun = state.moved.iter().all(|(_, grown)| *grown > 0);
        // One clock counts.
        if index == 0 && have_begun && !state.is_steady && !state.has_ended {
            let total = state.moved.iter().map(|(_, grown)| grown).sum();
            state.points.push((now, total));
            state.is_steady = is_steady(&state.points, self.window, self.like);
        }
        state.is_steady.then_some(2.0 * self.window)
    }

    /// Takes note that a connection has moved its data.
    pub(crate) fn ended(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
    }

    /// The rate of all connections together, bytes/s, at the time when all of them moved data. The sum of the
    /// rates that each had would be more than the path carries where one begins late: it has the path for
    /// itself when the others have ended. `None` where that time is too short.
    pub(crate) fn together(&self) -> Option<f64> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (&(begun, _), &(ended, all)) = (state.points.first()?, state.points.last()?);
        let from =
            if state.is_steady { ended - 2.0 * self.window } else { begun + WARM_UP * (ended - begun) };
        let &(from, before) = state.points.iter().find(|(at, _)| *at >= from)?;
        (ended - from >= self.window).then(|| all.saturating_sub(before) as f64 / (ended - from))
    }
}

/// Returns whether the rates of the last two windows differ little from each other and from another rate.
fn is_steady(points: &[(f64, u64)], window: f64, like: f64) -> bool {
    let Some(&(now, all)) = points.last() else { return false };
    let before = |at: f64| points.iter().rev().find(|(then, _)| *then <= at).copied();
    let (Some(middle), Some(first)) = (before(now - window), before(now - 2.0 * window)) else {
        return false;
    };
    let rate = |(from, before): (f64, u64), (until, after): (f64, u64)| {
        after.saturating_sub(before) as f64 / (until - from).max(1e-6)
    };
    let (earlier, later) = (rate(first, middle), rate(middle, (now, all)));
    let is_alike = |rate: f64| (like / ALIKE..=like * ALIKE).contains(&rate);
    (earlier - later).abs() <= STANDS_STILL * later && is_alike(earlier) && is_alike(later)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns when a comparison of connections that move so many bytes per second ends, seconds.
    fn ends(like: f64, connections: usize, rate: impl Fn(f64) -> f64) -> Option<f64> {
        let comparison = Comparison::new(like, 0.05, connections);
        let mut bytes = 0.0;
        (0..80).map(|step| f64::from(step) * 0.05).find(|now| {
            bytes += rate(*now) * 0.05 / connections as f64;
            let told = |index| comparison.moved(index, *now, 7_000 + bytes as u64);
            (0..connections).map(told).last().flatten().is_some()
        })
    }

    #[test]
    fn a_rate_that_stands_still_near_the_other_ends_the_comparison() {
        let full = |now: f64| if now < 0.4 { 2e6 } else { 10e6 };
        for connections in [1, 4] {
            let took = ends(10e6, connections, full).expect("an early end");
            assert!((1.0..1.5).contains(&took), "{took}");
        }
    }

    #[test]
    fn connections_that_begin_late_are_waited_for() {
        let comparison = Comparison::new(3e6, 0.12, 4);
        // Each moves as much as the one that the four are compared with; three begin after 1.5 s.
        let bytes = |index: usize, now: f64| {
            let begun = if index == 0 { 0.0 } else { 1.5 };
            ((now - begun).max(0.0) * 3e6) as u64
        };
        let mut end = None;
        for step in 0..80 {
            let now = f64::from(step) * 0.05;
            for index in 0..4 {
                end = end.or(comparison.moved(index, now, bytes(index, now)).map(|_| now));
            }
        }
        assert_eq!(end, None, "four connections are four times as fast");
    }

    #[test]
    fn rate_together_is_that_of_the_time_of_all() {
        // A path of 12 MB/s; the fourth connection begins after a second, and has it for itself at the end.
        let comparison = Comparison::new(3e6, 0.05, 4);
        let mut bytes = [0.0; 4];
        for step in 0..60 {
            let now = f64::from(step) * 0.05;
            let moves = |index: usize| if index == 3 { now >= 1.0 } else { now < 2.0 };
            let share = 12e6 / (0..4).filter(|index| moves(*index)).count().max(1) as f64;
            for (index, bytes) in bytes.iter_mut().enumerate() {
                if now >= 2.0 {
                    comparison.ended();
                }
                *bytes += if moves(index) { share * 0.05 } else { 0.0 };
                comparison.moved(index, now, *bytes as u64);
            }
        }
        let together = comparison.together().expect("a rate");
        assert!((11e6..13e6).contains(&together), "{together}");
        // They move data together for a moment only, or never.
        assert_eq!(Comparison::new(3e6, 0.05, 4).together(), None);
    }

    #[test]
    fn rates_that_differ_or_grow_are_measured_to_the_end() {
        assert_eq!(ends(10e6, 4, |_| 25e6), None);
        assert_eq!(ends(10e6, 1, |_| 5e6), None);
        // It grows by a third in each window.
        assert_eq!(ends(10e6, 1, |now| 2e6 * (now * 0.7).exp()), None);
    }
}
