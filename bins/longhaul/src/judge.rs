//! A short statement of what looks limiting.
//!
//! The kernel counts the time in which it had something to send, and how much of that it waited for the receiver's TCP window or for
//! room in the send buffer. Together with retransmissions and SSH's own credit that names the narrow place in most cases. It is a guess
//! all the same, and says what it rests on.

use lh_metrics::{Point, Run};

use crate::series::{congestion_window, difference, received, sent};

/// What a run did as a whole.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Summary {
    pub(crate) seconds: f64,
    pub(crate) received: f64,
    pub(crate) sent: f64,
    /// Bytes per second, the busier direction.
    pub(crate) average: f64,
    /// The highest rate between two samples.
    pub(crate) peak: f64,
    /// Milliseconds, where the kernel knew.
    pub(crate) least_rtt: Option<f64>,
    pub(crate) retransmitted: f64,
    pub(crate) rekeys: u64,
    /// It sent more than it received: what limits a transfer shows here.
    pub(crate) sends: bool,
    /// Sentences.
    pub(crate) verdict: String,
}

/// Looks at a run.
pub(crate) fn summary(run: &Run) -> Summary {
    let (Some(first), Some(last)) = (run.points.first(), run.points.last()) else {
        return empty("No samples were written: the connection ended before the first one.");
    };
    let seconds = last.seconds - first.seconds;
    let grown = |value: fn(&Point) -> Option<u64>| difference(first, last, value).unwrap_or(0.0);
    let (came, went) = (grown(received), grown(sent));
    let sending = went >= came;
    let moved = came.max(went);
    let direction = if sending { sent } else { received };
    let pairs = run.points.windows(2);
    let peak = pairs
        .filter_map(|pair| crate::series::rate(pair.first()?, pair.last()?, direction))
        .fold(0.0_f64, f64::max);
    let average = if seconds > 0.0 { moved / seconds } else { 0.0 };
    let least_rtt = run
        .points
        .iter()
        .filter_map(|point| point.sample.tcp("min_rtt"))
        .filter(|micros| *micros != u64::from(u32::MAX))
        .min()
        .map(|micros| micros as f64 / 1000.0);
    let verdict = if run.points.len() < 2 || moved < 256.0 * 1024.0 {
        "Too little moved to say what limited it.".to_owned()
    } else if sending {
        sender(run, first, last, average)
    } else {
        format!(
            "This end received. What limits a transfer shows at the end that sends: look at the figures of the {}.",
            if run.side == lh_metrics::Side::Local { "remote side" } else { "local side" }
        )
    };
    Summary {
        seconds,
        received: came,
        sent: went,
        average,
        peak,
        least_rtt,
        retransmitted: grown(|point| point.sample.tcp("total_retrans")),
        rekeys: last.sample.ssh("rekeys").unwrap_or(0),
        sends: sending,
        verdict,
    }
}

fn empty(verdict: &str) -> Summary {
    Summary {
        seconds: 0.0,
        received: 0.0,
        sent: 0.0,
        average: 0.0,
        peak: 0.0,
        least_rtt: None,
        retransmitted: 0.0,
        rekeys: 0,
        sends: true,
        verdict: verdict.to_owned(),
    }
}

/// What limited the end that sent.
fn sender(run: &Run, first: &Point, last: &Point, average: f64) -> String {
    let share = |name: &str| -> Option<f64> {
        let elapsed = (last.seconds - first.seconds) * 1e6;
        let spent = difference(first, last, |point| point.sample.tcp(name))?;
        (elapsed > 0.0).then(|| (spent / elapsed).min(1.0))
    };
    let per_cent = |share: f64| (share * 100.0).round();
    let (busy, receiver, buffer) = (share("busy_time"), share("rwnd_limited"), share("sndbuf_limited"));
    let resent = difference(first, last, |point| point.sample.tcp("bytes_retrans"));
    let out = difference(first, last, |point| point.sample.tcp("bytes_sent"));
    let loss = resent.zip(out).filter(|(_, out)| *out > 0.0).map_or(0.0, |(resent, out)| resent / out);
    let stopped =
        run.points.iter().filter(|point| point.sample.ssh("send_credit").is_some_and(|left| left < 32_768));
    let stopped = stopped.count() as f64 / run.points.len() as f64;
    let window = congestion_window(last);
    if stopped >= 0.3 {
        return format!(
            "The peer's SSH window: in {} % of the samples there was no credit left to send with. A stock server grants a fixed 2 MiB.",
            per_cent(stopped)
        );
    }
    if let Some(receiver) = receiver.filter(|share| *share >= 0.2) {
        return format!(
            "The receiver's TCP window: the sender waited for it {} % of the time. Raise net.ipv4.tcp_rmem there, or see whether the \
             program that takes the data is slow.",
            per_cent(receiver)
        );
    }
    if let Some(buffer) = buffer.filter(|share| *share >= 0.2) {
        return format!(
            "The sender's socket buffer: it was full {} % of the time with the path not. Raise net.ipv4.tcp_wmem there.",
            per_cent(buffer)
        );
    }
    if loss >= 0.0005 {
        return format!(
            "Loss on the path: {:.2} % of the bytes were sent again. Another congestion control (BBR) may bear it better.",
            loss * 100.0
        );
    }
    match (busy, window, last.sample.tcp("rtt")) {
        (Some(busy), ..) if busy < 0.6 => format!(
            "The sending program, its disk or its processor: TCP had nothing to send {} % of the time.",
            per_cent(1.0 - busy)
        ),
        (_, Some(window), Some(rtt)) if rtt > 0 && average >= 0.5 * window / (rtt as f64 / 1e6) => {
            "TCP's congestion window, which is to say the path: the data went out as fast as the window lets it, and neither buffers nor \
             windows of SSH stood in the way."
                .to_owned()
        }
        (None, ..) => "The kernel of the end that sent does not count what would tell.".to_owned(),
        _ => "Nothing stands out: TCP always had something to send, and no window was at its end.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_metrics::{About, Sample, Side};

    fn run(end: &[(&'static str, u64)], credit: u64) -> Run {
        let point = |seconds: f64, tcp: &[(&'static str, u64)], out| Point {
            seconds,
            sample: Sample {
                tcp: tcp.to_vec(),
                ssh: vec![("bytes_in", 0), ("bytes_out", out), ("send_credit", credit), ("rekeys", 1)],
            },
        };
        let start: Vec<_> = end.iter().map(|(name, _)| (*name, 0)).collect();
        let points = vec![point(0.0, &start, 0), point(10.0, end, 100_000_000)];
        Run { about: About::default(), side: Side::Local, points }
    }

    #[test]
    fn each_narrow_place_is_named() {
        let path = [("snd_cwnd", 100), ("snd_mss", 1000), ("rtt", 10_000), ("busy_time", 10_000_000)];
        let verdict = |more: &[(&'static str, u64)], credit| {
            let mut tcp = more.to_vec();
            tcp.extend(path.iter().filter(|(name, _)| !more.iter().any(|(known, _)| known == name)));
            summary(&run(&tcp, credit)).verdict
        };
        assert!(verdict(&[], 1 << 20).starts_with("TCP's congestion window"));
        assert!(verdict(&[], 0).starts_with("The peer's SSH window"));
        assert!(verdict(&[("rwnd_limited", 5_000_000)], 1 << 20).starts_with("The receiver's TCP window"));
        assert!(verdict(&[("sndbuf_limited", 5_000_000)], 1 << 20).starts_with("The sender's socket buffer"));
        let lossy = [("bytes_sent", 1_000_000), ("bytes_retrans", 10_000)];
        assert!(verdict(&lossy, 1 << 20).starts_with("Loss on the path: 1.00 %"));
        assert!(verdict(&[("busy_time", 2_000_000)], 1 << 20).contains("nothing to send 80 %"));
        assert!(verdict(&[("snd_cwnd", 10_000)], 1 << 20).starts_with("Nothing stands out"));
    }

    #[test]
    fn a_run_is_summed_up() {
        let sum = summary(&run(&[("total_retrans", 7), ("min_rtt", 1500)], 1));
        assert_eq!((sum.seconds, sum.sent, sum.average, sum.peak), (10.0, 1e8, 1e7, 1e7));
        assert_eq!((sum.retransmitted, sum.rekeys), (7.0, 1));
        let none = Run { points: Vec::new(), ..run(&[], 0) };
        assert!(summary(&none).verdict.starts_with("No samples"));
    }
}
