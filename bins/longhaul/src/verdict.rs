//! Determines what limited a connection, with the evidence.
//!
//! The kernel of the sending end counts the time in which it had data to send, and the part of it that was
//! spent waiting for the receiver's TCP window or for space in the send buffer. Together with
//! retransmissions, CPU time, settings and SSH's own windows, that identifies the limit in most cases. Each
//! verdict quotes the figures it is based on; without enough samples there is none.

use lh_metrics::drops::{Drops, TcpCounters};
use lh_metrics::loss::{LEAST_SEGMENTS, bearable_rate, is_bbr, limits_rate};
use lh_metrics::threads::{FULL, Usage};
use lh_metrics::{Point, Run};
use lh_wire::peer::Peer;

use crate::series::{congestion_window, difference};
use crate::units::{in_unit, size};

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
/// Multiple of the rate that losses allow from which they are those of a full queue and do not limit a
/// sender.
const BEYOND: f64 = 2.0;
/// Cores above which a process has certainly used more than one: the clocks of record and kernel differ a
/// little.
const ONE_CORE: f64 = 1.05;
/// Advice against a busy processor.
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

    /// Shortest round trip, seconds.
    fn least_round_trip(&self) -> Option<f64> {
        let all = self.run.points.iter().filter_map(|point| point.sample.tcp("min_rtt"));
        all.filter(|micros| *micros > 0 && *micros < u64::from(u32::MAX))
            .min()
            .map(|micros| micros as f64 / 1e6)
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
    let control = sender.congestion_control();
    let is_bbr = is_bbr(control);
    // BBR slows down for what is lost after its start only.
    let looks: Vec<TcpCounters> = sender.run.points.iter().filter_map(TcpCounters::of).collect();
    let course = Drops::of(&looks);
    let later = course.as_ref().filter(|_| is_bbr).map(Drops::later_part);
    let part = later.unwrap_or(again / segments);
    let segment = sender.last.sample.tcp("snd_mss")? as f64;
    let round_trip = sender.round_trip()?;
    if !limits_rate(part, segment, round_trip, average, control) {
        return None;
    }
    // What a full queue drops is the path's own limit, which a sender meets again and again.
    if !is_bbr
        && let Some(course) = &course
        && (sender.least_round_trip().is_some_and(|idle| course.is_of_full_queue(idle))
            || average > BEYOND * bearable_rate(part / in_a_row(course, again), segment, round_trip))
    {
        return None;
    }
    let advice = match control {
        Some(_) if is_bbr => "a path with less loss".to_owned(),
        Some(name) => {
            format!("bbr instead of {name} there (net.ipv4.tcp_congestion_control, or TcpCongestion)")
        }
        None => "bbr there, if it is not in use".to_owned(),
    };
    // Few of many segments are not none.
    let digits = if part < 0.0001 { 4 } else { 2 };
    Some(format!(
        "Loss on the path: the {sending} sent {:.digits$} % of {segments:.0} segments again, which holds its congestion control to \
         about this rate. What may help: {advice}; several connections (lhscp -j).",
        part * 100.0
    ))
}

/// Segments lost at a time: a congestion control slows down once for all that are lost in a round trip.
fn in_a_row(course: &Drops, lost: f64) -> f64 {
    (lost / (course.returned + 1) as f64).max(1.0)
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
            "TCP's congestion window, that is, the path: {} in flight at a round trip of {}, and neither buffers nor SSH \
             windows stood in the way.",
            size(window),
            in_unit("ms", round_trip * 1000.0)
        )
    })
}

#[cfg(test)]
mod tests;
