//! Times of a flow in which nothing arrived.

use lh_metrics::Point;

/// Growth of a counter that is no progress, bytes: answers to pings.
const ANSWERS: u64 = 2048;
/// Time between two samples from which this process was not running, so that nothing is known of the flow,
/// seconds.
const MISSED: f64 = 0.2;

/// Pauses of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Pauses {
    /// Length of the longest one, seconds.
    pub(crate) longest: f64,
    /// Number of those that count, and their length together, seconds.
    pub(crate) count: usize,
    pub(crate) seconds: f64,
    /// Length, seconds, of the pause in which the data ended, where nothing moved after them either. Zero
    /// where data ended in time, or the rest of them arrived late.
    pub(crate) endless: f64,
}

impl Pauses {
    /// The pauses between these samples of a counter of bytes. Those of `least` seconds and more are counted.
    pub(super) fn of(points: &[&Point], count: impl Fn(&Point) -> Option<u64>, least: f64) -> Self {
        let mut all = Self::default();
        let mut moved: Option<(f64, u64)> = None;
        let (mut pause, mut last) = (0.0_f64, None);
        let mut end = |pause: &mut f64| {
            all.longest = all.longest.max(*pause);
            if *pause >= least {
                all.count += 1;
                all.seconds += *pause;
            }
            *pause = 0.0;
        };
        for point in points {
            let Some(now) = count(point) else { continue };
            let is_missed = last.is_some_and(|last| point.seconds - last > MISSED);
            last = Some(point.seconds);
            match moved {
                Some((since, before)) if now.saturating_sub(before) < ANSWERS && !is_missed => {
                    pause = point.seconds - since;
                }
                _ => {
                    end(&mut pause);
                    moved = Some((point.seconds, now));
                }
            }
        }
        end(&mut pause);
        all
    }
}

/// Returns for how long nothing had moved when the data ended, seconds, given all samples until the end of
/// the task. Zero if anything has moved after the data.
///
/// Samples that are missing do not matter here: the counter is the same before them and after them.
pub(super) fn endless(points: &[&Point], count: impl Fn(&Point) -> Option<u64>, ended: f64) -> f64 {
    let mut counts = points.iter().filter_map(|point| Some((point.seconds, count(point)?)));
    let Some((_, last)) = counts.clone().next_back() else { return 0.0 };
    let since = counts.find(|(_, before)| last.saturating_sub(*before) < ANSWERS);
    since.map_or(0.0, |(since, _)| (ended - since).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(samples: &[(f64, u64)]) -> Pauses {
        let point = |(seconds, bytes): &(f64, u64)| Point {
            seconds: *seconds,
            sample: lh_metrics::Sample { ssh: vec![("bytes_in", *bytes)], ..Default::default() },
        };
        let points: Vec<Point> = samples.iter().map(point).collect();
        Pauses::of(&points.iter().collect::<Vec<_>>(), |point| point.sample.ssh("bytes_in"), 0.25)
    }

    #[test]
    fn pauses_are_found_between_samples() {
        let got = pauses(&[
            (0.0, 0),
            (0.1, 9000),
            (0.2, 9100),
            (0.35, 9150),
            (0.5, 9200),
            (0.65, 50_000),
            (0.7, 50_100),
            (0.8, 90_000),
        ]);
        assert!((got.longest - 0.4).abs() < 1e-9, "{got:?}");
        assert_eq!(got.count, 1);
        assert!((got.seconds - 0.4).abs() < 1e-9, "{got:?}");
    }

    #[test]
    fn pause_is_endless_where_nothing_moves_after_the_data() {
        let point = |(seconds, bytes): (f64, u64)| Point {
            seconds,
            sample: lh_metrics::Sample { ssh: vec![("bytes_in", bytes)], ..Default::default() },
        };
        let of = |after: u64| {
            let samples = [(0.0, 0), (0.5, 90_000), (2.0, 90_100), (4.0, 90_200), (9.0, 90_200 + after)];
            let points = samples.map(point);
            endless(&points.iter().collect::<Vec<_>>(), |point| point.sample.ssh("bytes_in"), 4.0)
        };
        assert!((of(0) - 3.5).abs() < 1e-9);
        assert!((of(500) - 3.5).abs() < 1e-9, "an answer to a ping");
        assert_eq!(of(9000), 0.0, "the rest arrives");
        assert_eq!(endless(&[], |_| None, 4.0), 0.0);
    }

    #[test]
    fn samples_that_are_missing_are_no_pause() {
        let got = pauses(&[(0.0, 0), (0.05, 9000), (0.9, 9000), (0.95, 50_000)]);
        assert_eq!((got.count, got.longest), (0, 0.0), "{got:?}");
    }
}
