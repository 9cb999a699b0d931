//! Plot data: values over time, computed from the samples of a run.

use lh_metrics::threads::Usage;
use lh_metrics::{Point, Run};

use crate::outage::Outage;

/// Upper limit of points in a line: about the columns of a screen.
const MOST_POINTS: usize = 1500;

/// One of the plots.
pub(crate) struct Plot {
    /// Identifier in the page.
    pub(crate) id: &'static str,
    /// Heading.
    pub(crate) title: &'static str,
    /// Unit of the values, for labels: `rate`, `bytes`, `ms`, `count` or `percent`.
    pub(crate) unit: &'static str,
    /// Lines of the plot: name, and a function of a sample and its predecessor.
    lines: &'static [Line],
}

/// A line: its name, and its value as a function of the previous and the current sample.
type Line = (&'static str, fn(&Point, &Point) -> Option<f64>);

/// Name and points of a line: seconds and values.
pub(crate) type PlotLine = (&'static str, Vec<(f64, f64)>);

/// The plots, in the order of the page.
pub(crate) static PLOTS: &[Plot] = &[
    Plot {
        id: "throughput",
        title: "Throughput",
        unit: "rate",
        lines: &[
            ("received", |before, now| rate(before, now, received)),
            ("sent", |before, now| rate(before, now, sent)),
        ],
    },
    Plot {
        id: "rtt",
        title: "Round trip",
        unit: "ms",
        lines: &[("smoothed", |_, now| millis(now, "rtt")), ("least", |_, now| millis(now, "min_rtt"))],
    },
    Plot {
        id: "cwnd",
        title: "TCP congestion window",
        unit: "bytes",
        lines: &[
            ("congestion window", |_, now| congestion_window(now)),
            ("in flight", |_, now| {
                Some(now.sample.tcp("unacked")? as f64 * now.sample.tcp("snd_mss")? as f64)
            }),
            ("peer's TCP window", |_, now| now.sample.tcp("snd_wnd").map(|bytes| bytes as f64)),
        ],
    },
    Plot {
        id: "retransmits",
        title: "Retransmitted segments",
        unit: "count",
        lines: &[("between samples", |before, now| {
            difference(before, now, |p| p.sample.tcp("total_retrans"))
        })],
    },
    Plot {
        id: "window",
        title: "SSH windows",
        unit: "bytes",
        lines: &[
            ("receive window", |_, now| now.sample.ssh("receive_window").map(|bytes| bytes as f64)),
            ("credit to send", |_, now| now.sample.ssh("send_credit").map(|bytes| bytes as f64)),
        ],
    },
    Plot {
        id: "cpu",
        title: "Processor time of the SSH process, of one core",
        unit: "percent",
        lines: &[
            ("all threads", |before, now| {
                rate(before, now, |point| point.sample.ssh("cpu_micros")).map(|micros| micros / 1e4)
            }),
            ("busiest thread", |before, now| Usage::of([before, now]).map(|usage| usage.share * 100.0)),
        ],
    },
];

impl Plot {
    /// The lines of a run that have values. Times without a connection, its `outages`, have none.
    pub(crate) fn draw(&self, run: &Run, outages: &[Outage]) -> Vec<PlotLine> {
        let is_connected =
            |before: &Point, now: &Point| !outages.iter().any(|outage| outage.is_between(before, now));
        let draw = |(name, value): &Line| {
            let pairs = run.points.windows(2).filter_map(|pair| match pair {
                [before, now] if is_connected(before, now) => Some((now.seconds, value(before, now)?)),
                _ => None,
            });
            (*name, thin(pairs.collect()))
        };
        self.lines.iter().map(draw).filter(|(_, points)| !points.is_empty()).collect()
    }
}

/// Reduces the number of points evenly. Of each group the highest point stays.
fn thin(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let together = points.len().div_ceil(MOST_POINTS).max(1);
    let highest = |group: &[(f64, f64)]| group.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(together).filter_map(highest).collect()
}

/// Bytes received: SSH's count, or the kernel's where the peer sends no other.
pub(crate) fn received(point: &Point) -> Option<u64> {
    point.sample.ssh("bytes_in").or_else(|| point.sample.tcp("bytes_received"))
}

/// Bytes sent: SSH's count, or the kernel's count of acknowledged bytes.
pub(crate) fn sent(point: &Point) -> Option<u64> {
    point.sample.ssh("bytes_out").or_else(|| point.sample.tcp("bytes_acked"))
}

/// TCP's congestion window, bytes.
pub(crate) fn congestion_window(point: &Point) -> Option<f64> {
    Some(point.sample.tcp("snd_cwnd")? as f64 * point.sample.tcp("snd_mss")? as f64)
}

/// Increase of a counter between two samples. A counter that is lower than before has begun again.
pub(crate) fn difference(before: &Point, now: &Point, value: impl Fn(&Point) -> Option<u64>) -> Option<f64> {
    let (before, now) = (value(before)?, value(now)?);
    Some(now.checked_sub(before).unwrap_or(now) as f64)
}

/// Increase of a counter over a run, over all of its connections.
pub(crate) fn grown(run: &Run, value: impl Fn(&Point) -> Option<u64>) -> Option<f64> {
    let known: Vec<&Point> = run.points.iter().filter(|point| value(point).is_some()).collect();
    known.first()?;
    let pairs = known.windows(2);
    // The sum of no numbers is -0.0.
    Some(
        pairs
            .filter_map(|pair| difference(pair.first()?, pair.last()?, &value))
            .fold(0.0, |all, one| all + one),
    )
}

/// Increase of a counter per second.
pub(crate) fn rate(before: &Point, now: &Point, value: impl Fn(&Point) -> Option<u64>) -> Option<f64> {
    let time = now.seconds - before.seconds;
    (time > 0.0).then(|| difference(before, now, value).map(|grown| grown / time)).flatten()
}

fn millis(point: &Point, name: &str) -> Option<f64> {
    // All ones mean that there is no measurement yet.
    point
        .sample
        .tcp(name)
        .filter(|micros| *micros != u64::from(u32::MAX))
        .map(|micros| micros as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_peaks() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
        points[777].1 = 50.0;
        let thinned = thin(points);
        assert!(thinned.len() <= MOST_POINTS && thinned.len() > MOST_POINTS / 2);
        assert!(thinned.contains(&(777.0, 50.0)));
        assert_eq!(thin(vec![(1.0, 2.0)]), [(1.0, 2.0)]);
    }
}
