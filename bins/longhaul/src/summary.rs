//! Summary of one connection: the row of the report's table.

use lh_metrics::threads::{TAKES_PART, Usage};
use lh_metrics::{Point, Run};

use crate::outage::{in_words, longest_part, outages};
use crate::pairs::Connection;
use crate::series::{grown, rate, received, sent};
use crate::units::size;
use crate::verdict;

/// Summary of a connection, from the client's point of view.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summary {
    /// Time between the first and the last sample, seconds.
    pub(crate) seconds: f64,
    /// Bytes that the client received.
    pub(crate) received: f64,
    /// Bytes that the client sent.
    pub(crate) sent: f64,
    /// Average rate of the busier direction, bytes/s.
    pub(crate) average: f64,
    /// Highest rate of that direction between two samples, bytes/s.
    pub(crate) peak: f64,
    /// Shortest round trip, milliseconds.
    pub(crate) least_rtt: Option<f64>,
    /// Retransmitted segments of the ends that have a record.
    pub(crate) retransmitted: f64,
    /// Key exchanges after the first.
    pub(crate) rekeys: u64,
    /// Processor time of the client and of the server, seconds.
    pub(crate) cpu: [Option<f64>; 2],
    /// Names of the congestion control of the client and of the server.
    pub(crate) congestion_control: [Option<String>; 2],
    /// True if an end has a sample.
    pub(crate) has_samples: bool,
    /// When the connection was interrupted, in a sentence.
    pub(crate) outage: Option<String>,
    /// The limit of the connection, in sentences.
    pub(crate) verdict: String,
    /// Active settings that can limit a connection, and the busiest thread of each end, one phrase each.
    pub(crate) settings: Vec<String>,
}

/// Computes the summary of a connection.
pub(crate) fn summary(connection: &Connection) -> Summary {
    let ends = [connection.local.as_ref(), connection.remote.as_ref()];
    let seconds = longest(ends, |first, last| Some(last.seconds - first.seconds)).unwrap_or(0.0);
    // Each end counts both directions; the client's counts are preferred.
    let [came, went] = match ends {
        [Some(client), _] => [grown(client, received), grown(client, sent)],
        [None, Some(server)] => [grown(server, sent), grown(server, received)],
        [None, None] => [None, None],
    };
    let [came, went] = [came.unwrap_or(0.0), went.unwrap_or(0.0)];
    let is_upload = went >= came;
    let moved = came.max(went);
    let peak = match ends {
        [Some(client), _] => peak(client, if is_upload { sent } else { received }),
        [None, Some(server)] => peak(server, if is_upload { received } else { sent }),
        [None, None] => 0.0,
    };
    let cpu = ends.map(|end| grown(end?, |point| point.sample.ssh("cpu_micros")).map(|micros| micros / 1e6));
    let congestion_control = ends.map(|end| {
        let points = &end?.points;
        points.iter().rev().find_map(|point| point.sample.congestion_control.clone())
    });
    let average = if seconds > 0.0 { moved / seconds } else { 0.0 };
    // Both ends know of an outage; the client's samples show its length.
    let of_ends = ends.map(|end| end.map(outages).unwrap_or_default());
    let outages = of_ends.iter().find(|all| !all.is_empty()).map_or(&[][..], Vec::as_slice);
    // The kernel's counters are those of one connection.
    let [client, server] = ends;
    let parts = [(client, &of_ends[0]), (server, &of_ends[1])];
    let parts = parts.map(|(end, outages)| end.map(|run| longest_part(run, outages)));
    let judged = parts.each_ref().map(Option::as_ref);
    let judged_seconds = longest(judged, |first, last| Some(last.seconds - first.seconds)).unwrap_or(0.0);
    let judged_moved = if outages.is_empty() {
        moved
    } else {
        let [client, server] = judged.map(|end| end.map(|run| [grown(run, received), grown(run, sent)]));
        let of_server = server.map(|[received, sent]| [sent, received]);
        client.or(of_server).and_then(|counts| counts[usize::from(is_upload)]).unwrap_or(0.0)
    };
    let (sender, receiver) = if is_upload { (judged[0], judged[1]) } else { (judged[1], judged[0]) };
    let rekeys = ends.into_iter().flatten().filter_map(|run| run.points.last()?.sample.ssh("rekeys")).max();
    Summary {
        seconds,
        received: came,
        sent: went,
        average,
        peak,
        least_rtt: ends.into_iter().flatten().filter_map(least_rtt).reduce(f64::min),
        retransmitted: ends
            .into_iter()
            .flatten()
            .filter_map(|run| grown(run, retransmitted))
            .fold(0.0, |all, one| all + one),
        rekeys: rekeys.unwrap_or(0),
        cpu,
        congestion_control,
        has_samples: ends.into_iter().flatten().any(|run| !run.points.is_empty()),
        outage: in_words(outages),
        verdict: verdict::verdict(&verdict::Evidence {
            sender,
            receiver,
            is_upload,
            average: if judged_seconds > 0.0 { judged_moved / judged_seconds } else { 0.0 },
            moved: judged_moved,
            seconds: judged_seconds,
        }),
        settings: settings(ends),
    }
}

fn retransmitted(point: &Point) -> Option<u64> {
    point.sample.tcp("total_retrans")
}

/// Maximum over both ends of `value` for their first and last sample.
fn longest(ends: [Option<&Run>; 2], value: fn(&Point, &Point) -> Option<f64>) -> Option<f64> {
    let each = ends.into_iter().flatten();
    each.filter_map(|run| value(run.points.first()?, run.points.last()?)).reduce(f64::max)
}

fn peak(run: &Run, direction: fn(&Point) -> Option<u64>) -> f64 {
    let rates = run.points.windows(2).filter_map(|pair| rate(pair.first()?, pair.last()?, direction));
    rates.fold(0.0, f64::max)
}

/// Shortest round trip that the kernel of an end has measured, milliseconds.
fn least_rtt(run: &Run) -> Option<f64> {
    let known = run.points.iter().filter_map(|point| point.sample.tcp("min_rtt"));
    // All ones mean that there is no measurement yet.
    known.filter(|micros| *micros != u64::from(u32::MAX)).min().map(|micros| micros as f64 / 1000.0)
}

/// Settings of both ends that can limit a connection, and their busiest threads.
fn settings(ends: [Option<&Run>; 2]) -> Vec<String> {
    let mut out = Vec::new();
    for (name, end) in [("client", ends[0]), ("server", ends[1])] {
        let Some(last) = end.and_then(|run| run.points.last()) else { continue };
        let mut phrase = |label: &str, field: &str, unit: &str| {
            if let Some(value) = last.sample.ssh(field) {
                out.push(format!("{name}: {label} {}{unit}", size(value as f64)));
            }
        };
        phrase("rate limit", "rate_limit", "/s");
        phrase("receive buffer at most", "receive_buffer_limit", " (net.ipv4.tcp_rmem)");
        phrase("send buffer at most", "send_buffer_limit", " (net.ipv4.tcp_wmem)");
        if let Some(usage) = end.and_then(|run| Usage::of(&run.points)) {
            let several = if usage.taking_part > 1 {
                format!(" ({} threads used more than {:.0} %)", usage.taking_part, TAKES_PART * 100.0)
            } else {
                String::new()
            };
            let share = usage.share * 100.0;
            out.push(format!(
                "{name}: the busiest thread, {}, used {share:.0} % of a core{several}",
                usage.busiest
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_metrics::{RunHeader, Sample, Side};

    fn run(side: Side, counts: [(u64, u64, u64); 2]) -> Run {
        let points = counts.into_iter().enumerate().map(|(at, (bytes_in, bytes_out, cpu))| Point {
            seconds: at as f64 * 10.0,
            sample: Sample {
                tcp: vec![("total_retrans", at as u64 * 7), ("min_rtt", 1500)],
                ssh: vec![
                    ("bytes_in", bytes_in),
                    ("bytes_out", bytes_out),
                    ("rekeys", 1),
                    ("cpu_micros", cpu),
                    ("receive_buffer_limit", 6_291_456),
                ],
                congestion_control: Some("cubic".to_owned()),
                ..Sample::default()
            },
        });
        Run { about: RunHeader::default(), side, points: points.collect() }
    }

    #[test]
    fn summary_has_the_clients_view() {
        let client = run(Side::Local, [(0, 0, 500_000), (1000, 100_000_000, 3_500_000)]);
        let server = run(Side::Remote, [(0, 0, 0), (100_000_000, 900, 4_000_000)]);
        let both = Connection { local: Some(client), remote: Some(server), files: Vec::new() };
        let sum = summary(&both);
        assert_eq!((sum.seconds, sum.sent, sum.received), (10.0, 1e8, 1000.0));
        assert_eq!((sum.average, sum.peak, sum.rekeys, sum.retransmitted), (1e7, 1e7, 1, 14.0));
        assert_eq!((sum.cpu, sum.least_rtt), ([Some(3.0), Some(4.0)], Some(1.5)));
        assert_eq!(sum.settings[0], "client: receive buffer at most 6.3 MB (net.ipv4.tcp_rmem)");

        let server_alone = Connection { local: None, ..both };
        let sum = summary(&server_alone);
        assert_eq!((sum.sent, sum.received, sum.cpu), (1e8, 900.0, [None, Some(4.0)]));
    }
}
