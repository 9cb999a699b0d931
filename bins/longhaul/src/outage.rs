//! Times in which a run had no connection: it was interrupted and went on over another one (`Resume`).

use lh_metrics::{Point, Run};

/// Names of TCP's counters that only grow while a connection lasts.
const COUNTERS: [&str; 3] = ["segs_out", "bytes_received", "bytes_acked"];

/// A time without a connection, seconds since the beginning of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outage {
    /// Last sample of the connection that was lost.
    pub(crate) from: f64,
    /// First sample of the connection that the run went on over.
    pub(crate) to: f64,
}

impl Outage {
    /// True where the time between two samples is, in part, in the outage.
    pub(crate) fn is_between(&self, before: &Point, now: &Point) -> bool {
        before.seconds < self.to && now.seconds > self.from
    }
}

/// The outages of a run. Samples without TCP's figures are such a time only where other samples have them:
/// not every system and not every connection has them.
pub(crate) fn outages(run: &Run) -> Vec<Outage> {
    let mut found = Vec::new();
    let mut connected: Option<&Point> = None;
    let mut is_lost = false;
    for point in &run.points {
        if point.sample.tcp.is_empty() {
            is_lost = true;
            continue;
        }
        if let Some(before) = connected.filter(|before| is_lost || has_restarted(before, point)) {
            found.push(Outage { from: before.seconds, to: point.seconds });
        }
        (connected, is_lost) = (Some(point), false);
    }
    found
}

/// True where the counters are those of another connection.
fn has_restarted(before: &Point, now: &Point) -> bool {
    COUNTERS.iter().any(|name| {
        let counts = before.sample.tcp(name).zip(now.sample.tcp(name));
        counts.is_some_and(|(before, now)| now < before)
    })
}

/// The part of a run between two of its outages that lasted longest.
pub(crate) fn longest_part(run: &Run, outages: &[Outage]) -> Run {
    let mut parts: Vec<Vec<Point>> = vec![Vec::new()];
    for point in &run.points {
        if outages.iter().any(|outage| point.seconds > outage.from && point.seconds < outage.to) {
            continue;
        }
        let last = parts.last().and_then(|part| part.last());
        if last.is_some_and(|last| outages.iter().any(|outage| outage.is_between(last, point))) {
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(point.clone());
        }
    }
    let length = |part: &Vec<Point>| {
        part.first().zip(part.last()).map_or(0.0, |(first, last)| last.seconds - first.seconds)
    };
    let longest = parts.into_iter().max_by(|a, b| length(a).total_cmp(&length(b)));
    Run { about: run.about.clone(), side: run.side, points: longest.unwrap_or_default() }
}

/// The outages in a sentence; nothing where there was none.
pub(crate) fn in_words(outages: &[Outage]) -> Option<String> {
    let lasted: f64 = outages.iter().map(|outage| outage.to - outage.from).sum();
    match outages {
        [] => None,
        [one] => Some(format!(
            "The connection was interrupted for {lasted:.1} s, from {:.1} s to {:.1} s, and went on over another one.",
            one.from, one.to
        )),
        [first, ..] => Some(format!(
            "The connection was interrupted {} times, for {lasted:.1} s in all and first at {:.1} s, and went on over \
             another one each time.",
            outages.len(),
            first.from
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_metrics::{RunHeader, Sample, Side};

    /// A run with a sample in each second, with this count of segments; `None` has no TCP.
    fn run(segments: &[Option<u64>]) -> Run {
        let point = |(at, segments): (usize, &Option<u64>)| Point {
            seconds: at as f64,
            sample: Sample {
                tcp: segments.iter().map(|count| ("segs_out", *count)).collect(),
                ..Sample::default()
            },
        };
        let points = segments.iter().enumerate().map(point).collect();
        Run { about: RunHeader::default(), side: Side::Local, points }
    }

    #[test]
    fn outages_are_found_at_either_end() {
        // The client takes samples meanwhile, and the server's come again with other counters.
        let client = run(&[Some(1), Some(9), None, None, Some(2), Some(3), Some(4)]);
        let server = run(&[Some(1), Some(9), Some(2), Some(3)]);
        assert_eq!(outages(&client), [Outage { from: 1.0, to: 4.0 }]);
        assert_eq!(outages(&server), [Outage { from: 1.0, to: 2.0 }]);
        let words = in_words(&outages(&client)).unwrap();
        assert!(words.contains("for 3.0 s, from 1.0 s to 4.0 s"), "{words}");
        let part = longest_part(&client, &outages(&client));
        assert_eq!(part.points.iter().map(|point| point.seconds).collect::<Vec<_>>(), [4.0, 5.0, 6.0]);
    }

    #[test]
    fn runs_without_figures_of_tcp_have_no_outage() {
        assert_eq!(outages(&run(&[None, None, None])), []);
        // The last sample of a connection that is closed.
        assert_eq!(outages(&run(&[Some(1), Some(2), None])), []);
        assert_eq!(in_words(&[]), None);
        assert_eq!(longest_part(&run(&[None, None]), &[]).points.len(), 2);
    }
}
