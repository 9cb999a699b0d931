//! Determines what limited a connection, with the evidence.
//!
//! The kernel of the sending end counts the time in which it had data to send, and the part of it that was
//! spent waiting for the receiver's TCP window or for space in the send buffer. Together with
//! retransmissions, CPU time, settings and SSH's own windows, that identifies the limit in most cases. Each
//! verdict quotes the figures it is based on; without enough samples there is none.

use lh_metrics::loss::{LEAST_SEGMENTS, is_bbr, limits_rate};
use lh_metrics::threads::{FULL, Usage};
use lh_metrics::{Point, Run};
use lh_wire::peer::Peer;

use crate::series::{congestion_window, difference};
use crate::units::size;

/// Lower limit of samples of the sending end; fewer do not represent a whole run.
const LEAST_SAMPLES: usize = 5;
/// Lower limit of a run's length, seconds. A shorter run consists of TCP's slow start and of the login.
const LEAST_SECONDS: f64 = 0.5;
/// Lower limit of transferred data, bytes. Less is complete before any window has opened.
const LEAST_MOVED: f64 = 4e6;
/// Part of the time from which waiting counts as the limit.
const MUCH: f64 = 0.3;
/// Part of what a window carries in its round trips from which that window is what limits a sender.
const FILLED: f64 = 0.4;
/// Cores above which a process has certainly used more than one: the clocks of record and kernel differ a little.
const ONE_CORE: f64 = 1.05;
/// What helps against a busy processor.
const CIPHER: &str = "A cipher that the processor has instructions for (aes128-gcm@openssh.com) needs least.";

/// Measured facts about one connection.
pub(crate) struct Evidence<'a> {
    /// The end that sent most, where it has a record.
    pub(crate) sender: Option<&'a Run>,
    /// The end that received most, where it has a record.
    pub(crate) receiver: Option<&'a Run>,
    /// The client sent most.
    pub(crate) is_upload: bool,
    /// Average rate of the busier direction, bytes/s.
    pub(crate) average: f64,
    /// Bytes of the busier direction.
    pub(crate) moved: f64,
    /// Length of the run, seconds.
    pub(crate) seconds: f64,
}

/// The first and last samples of an end.
struct Span<'a> {
    first: &'a Point,
    last: &'a Point,
    run: &'a Run,
}

impl<'a> Span<'a> {
    fn of(run: &'a Run) -> Option<Self> {
        Some(Self { first: run.points.first()?, last: run.points.last()?, run })
    }

    fn grown(&self, value: impl Fn(&Point) -> Option<u64>) -> Option<f64> {
        difference(self.first, self.last, value)
    }

    /// Part of the time that a counter of microseconds accounts for.
    fn share(&self, value: impl Fn(&Point) -> Option<u64>) -> Option<f64> {
        self.times(value).map(|times| times.min(1.0))
    }

    /// A counter of microseconds, in multiples of the time.
    fn times(&self, value: impl Fn(&Point) -> Option<u64>) -> Option<f64> {
        let elapsed = (self.last.seconds - self.first.seconds) * 1e6;
        self.grown(value).filter(|_| elapsed > 0.0).map(|spent| spent / elapsed)
    }

    /// Cores that the process kept busy, all its threads together.
    fn cores(&self) -> Option<f64> {
        self.times(|point| point.sample.ssh("cpu_micros"))
    }

    fn congestion_control(&self) -> Option<&str> {
        self.run.points.iter().rev().find_map(|point| point.sample.congestion_control.as_deref())
    }

    /// Smoothed round trip at the end, seconds.
    fn round_trip(&self) -> Option<f64> {
        self.last.sample.tcp("rtt").filter(|micros| *micros > 0).map(|micros| micros as f64 / 1e6)
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The limit and its evidence, in sentences.
pub(crate) fn verdict(evidence: &Evidence<'_>) -> String {
    let [sending, receiving] = if evidence.is_upload { ["client", "server"] } else { ["server", "client"] };
    let spans = [evidence.sender.and_then(Span::of), evidence.receiver.and_then(Span::of)];
    let limits = spans.iter().flatten().filter_map(|span| span.last.sample.ssh("rate_limit"));
    if let Some(limit) = limits.min().map(|limit| limit as f64)
        && evidence.average >= 0.8 * limit
    {
        return format!(
            "The rate limit that was asked for (-l, --pace, TcpPacing): {}/s of {}/s.",
            size(evidence.average),
            size(limit)
        );
    }
    if [evidence.sender, evidence.receiver].iter().flatten().all(|run| run.points.is_empty()) {
        return "No verdict: there is no sample, for the connection ended before the first one.".to_owned();
    }
    if evidence.moved < LEAST_MOVED || evidence.seconds < LEAST_SECONDS {
        return format!(
            "No verdict: {} in {:.1} s are too little to tell.",
            size(evidence.moved),
            evidence.seconds
        );
    }
    let [sender, receiver] = spans;
    let Some(sender) = sender else {
        return receiver_alone(receiver.as_ref(), sending, receiving);
    };
    let samples = sender.run.points.len();
    if samples < LEAST_SAMPLES {
        return format!(
            "No verdict: {samples} samples of the {sending} are too few to tell. A shorter MetricsInterval takes more."
        );
    }
    let found = ssh_window(&sender, receiving, evidence.average)
        .or_else(|| processor(Some(&sender), sending))
        .or_else(|| processor(receiver.as_ref(), receiving))
        .or_else(|| tcp_buffers(&sender, receiver.as_ref(), sending, receiving))
        .or_else(|| loss(&sender, evidence.average, sending))
        .or_else(|| idle(&sender, sending))
        .or_else(|| path(&sender, evidence.average));
    found.unwrap_or_else(|| {
        if sender.last.sample.tcp("busy_time").is_none() {
            format!("No verdict: the kernel of the {sending} does not count what would tell.")
        } else {
            "Nothing stands out: TCP always had data to send, and no window was at its limit.".to_owned()
        }
    })
}

/// Verdict without the sender's record: only the receiver's CPU can be judged.
fn receiver_alone(receiver: Option<&Span<'_>>, sending: &str, receiving: &str) -> String {
    processor(receiver, receiving).unwrap_or_else(|| {
        format!(
            "No verdict: the limit shows at the end that sends, and there are no figures of the {sending}. \
             Servers other than Longhaul and HPN-SSH give none."
        )
    })
}

fn ssh_window(sender: &Span<'_>, receiving: &str, average: f64) -> Option<String> {
    let known: Vec<u64> =
        sender.run.points.iter().filter_map(|point| point.sample.ssh("send_credit")).collect();
    let closed = known.iter().filter(|left| **left < 32_768).count() as f64 / (known.len().max(1)) as f64;
    // A Longhaul receiver's window follows the path, and closes only where its program or disk is slower.
    let follows = receiving == "client" || Peer::of(&sender.run.about.peer) == Peer::Longhaul;
    // A window that would carry much more in each round trip is kept closed by what is behind it.
    let possible = known.iter().max().zip(sender.round_trip()).map(|(most, rtt)| *most as f64 / rtt);
    let is_slow = possible.is_some_and(|possible| average < FILLED * possible);
    let why = if follows || is_slow {
        format!("The program or disk that takes the data at the {receiving} is slower than the path.")
    } else {
        "Servers other than Longhaul and HPN-SSH grant a fixed window, OpenSSH 2 MiB.".to_owned()
    };
    (closed >= MUCH).then(|| {
        format!(
            "The SSH window of the {receiving}: in {} of {} samples it let nothing more be sent. {why}",
            percent(closed),
            known.len()
        )
    })
}

fn processor(end: Option<&Span<'_>>, name: &str) -> Option<String> {
    let end = end?;
    if let Some(usage) = Usage::of(&end.run.points) {
        let together = match end.cores() {
            Some(cores) if usage.taking_part > 1 => {
                format!(" ({} threads together {})", usage.taking_part, of_cores(cores))
            }
            _ => String::new(),
        };
        return usage.is_full().then(|| {
            format!(
                "The processor of the {name}: one core was busy, with the thread {} of its SSH process for {} of the \
                 time{together}. {CIPHER}",
                usage.busiest,
                percent(usage.share)
            )
        });
    }
    let cores = end.cores().filter(|cores| *cores >= FULL)?;
    // Records of earlier versions do not tell the threads apart.
    let threads =
        if cores > ONE_CORE { " with all its threads, a limit where one of them did most of it" } else { "" };
    Some(format!("The processor of the {name}: its SSH process used {}{threads}. {CIPHER}", of_cores(cores)))
}

fn of_cores(cores: f64) -> String {
    if cores > ONE_CORE {
        format!("{cores:.1} cores")
    } else {
        format!("{} of a core", percent(cores.min(1.0)))
    }
}

fn tcp_buffers(
    sender: &Span<'_>,
    receiver: Option<&Span<'_>>,
    sending: &str,
    receiving: &str,
) -> Option<String> {
    let waited =
        |name: &'static str| sender.share(|point| point.sample.tcp(name)).filter(|part| *part >= MUCH);
    let setting = |end: Option<&Span<'_>>, field: &str, name: &str| {
        let limit = end.and_then(|end| end.last.sample.ssh(field));
        limit.map_or_else(|| name.to_owned(), |bytes| format!("{name} (now {} at most)", size(bytes as f64)))
    };
    if let Some(part) = waited("rwnd_limited") {
        return Some(format!(
            "The receiver's TCP window: the {sending} waited for it {} of the time. Either the program that takes the data at \
             the {receiving} is slow, or its {} is too small for this round trip.",
            percent(part),
            setting(receiver, "receive_buffer_limit", "net.ipv4.tcp_rmem"),
        ));
    }
    waited("sndbuf_limited").map(|part| {
        format!(
            "The send buffer of the {sending}: it was full {} of the time while the path was not. Raise {} there.",
            percent(part),
            setting(Some(sender), "send_buffer_limit", "net.ipv4.tcp_wmem"),
        )
    })
}

/// Verdict about loss, by [`lh_metrics::loss`].
fn loss(sender: &Span<'_>, average: f64, sending: &str) -> Option<String> {
    let segments = sender.grown(|point| point.sample.tcp("data_segs_out"))?;
    let again = sender.grown(|point| point.sample.tcp("total_retrans"))?;
    if segments < LEAST_SEGMENTS || again < 1.0 {
        return None;
    }
    let part = again / segments;
    let segment = sender.last.sample.tcp("snd_mss")? as f64;
    let control = sender.congestion_control();
    let is_bbr = is_bbr(control);
    if !limits_rate(part, segment, sender.round_trip()?, average, control) {
        return None;
    }
    let advice = match control {
        Some(_) if is_bbr => "a path with less loss".to_owned(),
        Some(name) => {
            format!("bbr instead of {name} there (net.ipv4.tcp_congestion_control, or TcpCongestion)")
        }
        None => "bbr there, if it is not in use".to_owned(),
    };
    Some(format!(
        "Loss on the path: the {sending} sent {:.2} % of {segments:.0} segments again, which holds its congestion control to \
         about this rate. What may help: {advice}; several connections (lhscp -j).",
        part * 100.0
    ))
}

fn idle(sender: &Span<'_>, sending: &str) -> Option<String> {
    let busy = sender.share(|point| point.sample.tcp("busy_time")).filter(|busy| *busy < 0.6)?;
    let cpu = sender.cores().map(|cores| format!(", and its SSH process used {}", of_cores(cores)));
    Some(format!(
        "The source of the data at the {sending} (program, disk, or a rate limit of its own): TCP had nothing to send {} of \
         the time{}.",
        percent(1.0 - busy),
        cpu.unwrap_or_default()
    ))
}

fn path(sender: &Span<'_>, average: f64) -> Option<String> {
    let window = congestion_window(sender.last)?;
    let round_trip = sender.round_trip()?;
    (average >= 0.5 * window / round_trip).then(|| {
        format!(
            "TCP's congestion window, that is, the path: {} in flight at a round trip of {:.1} ms, and neither buffers nor SSH \
             windows stood in the way.",
            size(window),
            round_trip * 1000.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lh_metrics::{About, Sample, Side, ThreadTime};

    const SECOND: u64 = 1_000_000;

    /// A run of ten seconds that sends 100 MB, in eleven samples whose counters grow evenly to `end`.
    fn run(end: &[(&'static str, u64)], ssh: &[(&'static str, u64)], control: &str) -> Run {
        let settings = ["snd_cwnd", "snd_mss", "rtt"];
        let points = (0..=10).map(|second| {
            let tcp = end.iter().map(|&(name, value)| {
                (name, if settings.contains(&name) { value } else { value * second / 10 })
            });
            let mut own = vec![("bytes_in", 0), ("bytes_out", 10_000_000 * second), ("send_credit", 1 << 20)];
            for &(name, value) in ssh {
                own.retain(|(known, _)| *known != name);
                own.push((name, if name == "cpu_micros" { value * second / 10 } else { value }));
            }
            let congestion_control = Some(control.to_owned());
            Point {
                seconds: second as f64,
                sample: Sample { tcp: tcp.collect(), ssh: own, congestion_control, ..Sample::default() },
            }
        });
        Run { about: About::default(), side: Side::Local, points: points.collect() }
    }

    /// The verdict on an upload of 10 MB/s for ten seconds with this record of the client.
    fn verdict_on(run: &Run) -> String {
        let evidence = Evidence {
            sender: Some(run),
            receiver: None,
            is_upload: true,
            average: 1e7,
            moved: 1e8,
            seconds: 10.0,
        };
        verdict(&evidence)
    }

    /// The verdict on a run whose process uses these threads for that percentage of the time.
    fn judged_with_threads(percent: &[(&str, u64)]) -> String {
        let all: u64 = percent.iter().map(|(_, percent)| percent).sum();
        let mut run = run(&[("busy_time", 10 * SECOND)], &[("cpu_micros", all * SECOND / 10)], "cubic");
        for (second, point) in (0..).zip(&mut run.points) {
            let thread = |(id, &(name, percent)): (u32, &(&str, u64))| ThreadTime {
                id,
                name: name.to_owned(),
                cpu_micros: percent * second * 10_000,
            };
            point.sample.threads = (1..).zip(percent).map(thread).collect();
        }
        verdict_on(&run)
    }

    #[test]
    fn threads_that_share_the_work_do_not_limit() {
        // Together these use as much as one busy core, and each of them has time to spare.
        let shared = judged_with_threads(&[("main", 45), ("packets", 30), ("packets", 20)]);
        assert!(shared.starts_with("Nothing stands out"), "{shared}");
        let full = judged_with_threads(&[("main", 30), ("packets", 97), ("resolve", 0)]);
        let expected = "The processor of the client: one core was busy, with the thread packets of its SSH process for \
                        97 % of the time (2 threads together 1.3 cores).";
        assert!(full.starts_with(expected), "{full}");
        let alone = judged_with_threads(&[("main", 90)]);
        assert!(
            alone.contains("the thread main of its SSH process for 90 % of the time. A cipher"),
            "{alone}"
        );
    }

    fn judged(end: &[(&'static str, u64)], ssh: &[(&'static str, u64)], control: &str) -> String {
        let path = [
            ("snd_cwnd", 100),
            ("snd_mss", 1000),
            ("rtt", 10_000),
            ("busy_time", 10 * SECOND),
            ("data_segs_out", 100_000),
        ];
        let mut tcp = end.to_vec();
        tcp.extend(path.iter().filter(|(name, _)| !end.iter().any(|(known, _)| known == name)));
        let run = run(&tcp, ssh, control);
        verdict_on(&run)
    }

    #[test]
    fn verdict_names_each_limit_with_its_evidence() {
        let says = |tcp: &[_], ssh: &[_], expected: &str| {
            let got = judged(tcp, ssh, "cubic");
            assert!(got.starts_with(expected), "{got}");
            got
        };
        says(&[], &[], "TCP's congestion window");
        let got = says(&[], &[("send_credit", 0)], "The SSH window of the server: in 100 % of 11 samples");
        assert!(got.ends_with("OpenSSH 2 MiB."), "{got}");
        // 30 kB in each round trip of 10 ms are 3 MB/s; in each of 50 microseconds they would be 600 MB/s.
        let got = says(&[], &[("send_credit", 30_000)], "The SSH window of the server");
        assert!(got.ends_with("OpenSSH 2 MiB."), "{got}");
        let got = says(
            &[("rtt", 50)],
            &[("send_credit", 30_000)],
            "The SSH window of the server: in 100 % of 11 samples",
        );
        assert!(got.ends_with("at the server is slower than the path."), "{got}");
        says(
            &[],
            &[("cpu_micros", 9 * SECOND)],
            "The processor of the client: its SSH process used 90 % of a core",
        );
        let got = says(
            &[],
            &[("cpu_micros", 12 * SECOND)],
            "The processor of the client: its SSH process used 1.2 cores with all its threads, a limit where",
        );
        assert!(!got.contains("100 %"), "{got}");
        says(
            &[("rwnd_limited", 5 * SECOND)],
            &[],
            "The receiver's TCP window: the client waited for it 50 %",
        );
        let buffer = [("send_buffer_limit", 4_194_304)];
        let got = says(&[("sndbuf_limited", 5 * SECOND)], &buffer, "The send buffer of the client");
        assert!(got.contains("net.ipv4.tcp_wmem (now 4.2 MB at most)"), "{got}");
        says(&[("busy_time", 2 * SECOND)], &[], "The source of the data at the client");
        says(&[("snd_cwnd", 10_000)], &[], "Nothing stands out");
    }

    #[test]
    fn rate_limit_takes_precedence() {
        let limited = [("rate_limit", 11_000_000), ("cpu_micros", 10 * SECOND)];
        let got = judged(&[("busy_time", SECOND)], &limited, "cubic");
        assert_eq!(got, "The rate limit that was asked for (-l, --pace, TcpPacing): 10.0 MB/s of 11.0 MB/s.");
        let far = [("rate_limit", 90_000_000)];
        assert!(judged(&[("busy_time", SECOND)], &far, "cubic").starts_with("The source"));
    }

    #[test]
    fn loss_is_named_only_where_it_can_limit() {
        // 10 MB/s over 10 ms: at a loss of 0.0007 Reno reaches 4.6 MB/s.
        let lossy = [("total_retrans", 70)];
        let got = judged(&lossy, &[], "cubic");
        assert!(
            got.starts_with("Loss on the path: the client sent 0.07 % of 100000 segments again"),
            "{got}"
        );
        assert!(got.contains("bbr instead of cubic"), "{got}");
        // BBR does not slow down for so little loss, and is not advised where it is in use.
        assert!(judged(&lossy, &[], "bbr").starts_with("TCP's congestion window"));
        let much = judged(&[("total_retrans", 3000)], &[], "bbr");
        assert!(much.starts_with("Loss on the path") && !much.contains("bbr instead"), "{much}");
        // The same loss on loopback: 50 microseconds and segments of 64 KiB allow a thousand times the rate.
        let loopback = [("total_retrans", 70), ("rtt", 50), ("snd_mss", 65_483)];
        assert!(!judged(&loopback, &[], "cubic").starts_with("Loss"));
        // A handful of lost segments is not significant.
        assert!(!judged(&[("total_retrans", 70), ("data_segs_out", 900)], &[], "cubic").starts_with("Loss"));
    }

    #[test]
    fn too_little_evidence_gives_no_verdict() {
        let run = Run { points: run(&[], &[], "cubic").points[..3].to_vec(), ..run(&[], &[], "cubic") };
        let all = Evidence {
            sender: Some(&run),
            receiver: None,
            is_upload: false,
            average: 1e7,
            moved: 2e7,
            seconds: 2.0,
        };
        assert!(verdict(&all).starts_with("No verdict: 3 samples of the server"));
        assert!(verdict(&Evidence { moved: 1e5, ..all }).starts_with("No verdict: 100.0 kB in 2.0 s"));
        let all = Evidence { sender: None, receiver: Some(&run), moved: 2e7, ..all };
        assert!(verdict(&all).contains("no figures of the server"));
    }
}
