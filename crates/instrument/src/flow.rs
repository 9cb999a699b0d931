//! A bulk flow in one direction, and what the ends counted meanwhile.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lh_client::{SessionSetup, Start};
use lh_metrics::Point;
use lh_metrics::threads::Usage;

use crate::quota::{self, Quota};
use crate::shell::{SHORT, cpu_of_stat, sh};
use crate::stats::{lowest, median};
use crate::target::Remote;
use crate::task::{Data, Shown, Task};

/// Direction of a flow, seen from this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::Up, Self::Down];

    /// The column of a table.
    pub(crate) const fn column(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Up => "upload",
            Self::Down => "download",
        }
    }

    /// The end that sends.
    pub(crate) const fn sender(self) -> &'static str {
        match self {
            Self::Up => "this machine",
            Self::Down => "the server",
        }
    }

    /// The end that receives.
    pub(crate) const fn receiver(self) -> &'static str {
        match self {
            Self::Up => "the server",
            Self::Down => "this machine",
        }
    }
}

/// Time between samples of a flow.
const SAMPLE: Duration = Duration::from_millis(50);
/// Time between pings beside a flow.
const PING: Duration = Duration::from_millis(200);
/// Part of a flow that is not counted: TCP's slow start.
pub(crate) const WARM_UP: f64 = 0.3;
/// Key exchanges in a flow from which it is compared with one without.
pub(crate) const MANY_REKEYS: u64 = 3;
/// Send credit below which the peer's window counts as closed, bytes: one packet.
const CLOSED: u64 = 32_768;
/// Parts of a flow whose windows are compared.
const PARTS: usize = 3;

/// The bit of `options` in `struct tcp_info` (`TCPI_OPT_WSCALE`).
const WINDOW_SCALING: u64 = 4;
/// That of selective acknowledgements (`TCPI_OPT_SACK`).
const SELECTIVE_ACKS: u64 = 2;

/// What the sending end's TCP counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sender {
    /// Shares of the time that TCP had data to send in which it waited for the receiver's window, and for
    /// space in the send buffer.
    pub(crate) receive_window: Option<f64>,
    pub(crate) send_buffer: Option<f64>,
    /// Segments sent, and those that were sent again.
    pub(crate) segments: f64,
    pub(crate) resent: f64,
    /// Bytes of a segment.
    pub(crate) segment: f64,
    /// Largest receive window seen, bytes.
    pub(crate) window: Option<f64>,
    /// Congestion window at the end, bytes.
    pub(crate) congestion_window: Option<f64>,
    pub(crate) congestion_control: Option<String>,
    /// Median round trip under load, seconds.
    pub(crate) loaded_rtt: Option<f64>,
    /// A rate limit of the socket, bytes/s.
    pub(crate) paced: Option<f64>,
}

/// How a thread shared a processor with others, as parts of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Turns {
    /// It ran.
    pub(crate) ran: f64,
    /// It could have run, and another thread did.
    pub(crate) waited: f64,
}

impl Turns {
    /// The part of the time in which it ran or could have.
    pub(crate) const fn wanted(self) -> f64 {
        self.ran + self.waited
    }
}

/// Nanoseconds that each thread ran and waited for its turn, by the path of its `schedstat`.
type ThreadTimes = HashMap<String, (u64, u64)>;

/// The result of a flow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flow {
    /// Bytes per second behind the warm-up.
    pub(crate) rate: f64,
    /// Length of the flow, seconds.
    pub(crate) seconds: f64,
    /// Samples behind the warm-up.
    pub(crate) samples: usize,
    /// Lowest round trip of TCP, seconds.
    pub(crate) least_rtt: Option<f64>,
    /// Median round trip of a small SSH message beside the flow, seconds.
    pub(crate) ping: Option<f64>,
    /// Share of samples in which the server's SSH window was closed, and the window, bytes; upload only.
    pub(crate) closed: f64,
    pub(crate) ssh_window: Option<f64>,
    /// That window, bytes, where it was used up and of one size throughout; upload only.
    pub(crate) constant_window: Option<f64>,
    /// Cores used by the SSH process of the client and of the server.
    pub(crate) client_cpu: Option<f64>,
    pub(crate) server_cpu: Option<f64>,
    /// The busiest thread of these processes: how it shared a processor.
    pub(crate) client_turns: Option<Turns>,
    pub(crate) server_turns: Option<Turns>,
    /// The threads of these processes, where their samples have them.
    pub(crate) client_threads: Option<Usage>,
    pub(crate) server_threads: Option<Usage>,
    /// The limit of a control group that stopped these processes longest.
    pub(crate) client_quota: Option<Quota>,
    pub(crate) server_quota: Option<Quota>,
    pub(crate) sender: Option<Sender>,
    /// Whether windows may exceed 64 KiB: both ends have offered to scale them (RFC 7323 section 2).
    pub(crate) scales_windows: Option<bool>,
    /// Whether the receiver tells which segments arrived behind a lost one (RFC 2018).
    pub(crate) acknowledges_selectively: Option<bool>,
    /// Key exchanges behind the warm-up, and the bytes of the flow between two of them.
    pub(crate) rekeys: u64,
    pub(crate) bytes_per_rekey: f64,
    /// Longest time without progress, seconds.
    pub(crate) longest_pause: f64,
    /// Why there is no result, or half of one.
    pub(crate) failure: Option<String>,
}

impl Flow {
    /// True where the samples suffice for a verdict.
    pub(crate) fn is_significant(&self) -> bool {
        self.samples >= 10 && self.rate > 0.0
    }

    /// Segments that were sent again.
    pub(crate) fn resent(&self) -> f64 {
        self.sender.as_ref().map_or(0.0, |sender| sender.resent)
    }

    /// Adds what another flow in this direction lost. The rate becomes that of both, in the time of both.
    pub(crate) fn add_losses(&mut self, other: &Self) {
        let (Some(mine), Some(others)) = (self.sender.as_mut(), other.sender.as_ref()) else { return };
        if !other.is_significant() {
            return;
        }
        mine.segments += others.segments;
        mine.resent += others.resent;
        let seconds = self.seconds + other.seconds;
        self.rate = (self.rate * self.seconds + other.rate * other.seconds) / seconds;
        self.seconds = seconds;
        self.samples += other.samples;
        self.rekeys += other.rekeys;
    }

    /// Share of segments that were sent again.
    pub(crate) fn loss(&self) -> Option<f64> {
        let sender = self.sender.as_ref()?;
        (sender.segments > 0.0).then(|| sender.resent / sender.segments)
    }
}

/// Reads its input to the end, and reports the SSH process's processor time and control groups around it.
const TAKE: &str = r#"@GROUPS@
t() { grep -H . /proc/$PPID/task/*/schedstat 2>/dev/null | tr "\n" ";"; }
p=$(cat /proc/$PPID/stat 2>/dev/null); b=$(t); g=$(c); echo ready; cat >/dev/null; h=$(c); q=$(cat /proc/$PPID/stat 2>/dev/null); e=$(t)
echo "p=$p"; echo "q=$q"; echo "b=$b"; echo "e=$e"; echo "g=$g"; echo "h=$h""#;

/// Sends zeros until a line comes, then reports the same and what the kernel counted.
const GIVE: &str = r#"@GROUPS@
t() { grep -H . /proc/$PPID/task/*/schedstat 2>/dev/null | tr "\n" ";"; }
p=$(cat /proc/$PPID/stat 2>/dev/null); b=$(t); g=$(c); cat /dev/zero 2>/dev/null & k=$!; read x; h=$(c); q=$(cat /proc/$PPID/stat 2>/dev/null); e=$(t)
set -- $SSH_CONNECTION
s=$(ss -tinH "sport = :$4 and dport = :$2" 2>/dev/null | tr "\n" " ")
kill $k; wait $k 2>/dev/null
{ echo "p=$p"; echo "q=$q"; echo "b=$b"; echo "e=$e"; echo "g=$g"; echo "h=$h"; echo "s=$s"; } >&2"#;

impl Remote {
    /// Runs a flow for this time.
    pub(crate) fn flow(&mut self, direction: Direction, time: Duration) -> Flow {
        let (script, data) = match direction {
            Direction::Up => (TAKE, Data::Send(time, u64::MAX)),
            Direction::Down => (GIVE, Data::Receive(time)),
        };
        let script = script.replace("@GROUPS@", quota::FUNCTION);
        let groups = quota::here();
        let (begun, before) = (Instant::now(), own_thread_times());
        let shown = self.run(Task {
            setup: SessionSetup::new(Start::Exec(sh(&script))),
            data,
            input: Vec::new(),
            sample: Some(SAMPLE),
            ping: Some(PING),
            limit: SHORT,
            hold: None,
        });
        let mut flow = summarise(direction, &shown);
        flow.client_turns = turns(&before, &own_thread_times(), begun.elapsed().as_secs_f64());
        flow.client_quota = quota::between(&groups, &quota::here());
        flow
    }
}

fn summarise(direction: Direction, shown: &Shown) -> Flow {
    let mut flow = Flow { failure: shown.failure.clone(), ..Flow::default() };
    let Some((begun, ended)) = shown.data else { return flow };
    flow.seconds = ended - begun;
    let from = begun + (ended - begun) * WARM_UP;
    let within: Vec<&Point> =
        shown.local.iter().filter(|point| point.seconds >= from && point.seconds <= ended + 0.01).collect();
    flow.samples = within.len();
    let count = |point: &Point| match direction {
        Direction::Up => point.sample.tcp("bytes_acked").or_else(|| point.sample.ssh("bytes_out")),
        Direction::Down => point.sample.ssh("bytes_in"),
    };
    if let (Some(first), Some(last)) = (within.first(), within.last())
        && last.seconds > first.seconds
        && let (Some(before), Some(after)) = (count(first), count(last))
    {
        let time = last.seconds - first.seconds;
        flow.rate = after.saturating_sub(before) as f64 / time;
        let exchanges = |point: &Point| point.sample.ssh("rekeys").unwrap_or(0);
        flow.rekeys = exchanges(last).saturating_sub(exchanges(first));
        flow.bytes_per_rekey = flow.rate * time / flow.rekeys.max(1) as f64;
        let cpu = |point: &Point| point.sample.ssh("cpu_micros");
        if let (Some(before), Some(after)) = (cpu(first), cpu(last)) {
            flow.client_cpu = Some(after.saturating_sub(before) as f64 / 1e6 / time);
        }
    }
    flow.longest_pause = longest_pause(&within, count);
    flow.client_threads = Usage::of(within.iter().copied());
    let all = || shown.local.iter().filter_map(|point| point.sample.tcp("min_rtt"));
    flow.least_rtt = lowest(all().filter(|micros| *micros > 0).map(|micros| micros as f64 / 1e6));
    let options = shown.local.iter().find_map(|point| point.sample.tcp("options"));
    flow.scales_windows = options.map(|options| options & WINDOW_SCALING != 0);
    flow.acknowledges_selectively = options.map(|options| options & SELECTIVE_ACKS != 0);
    flow.ping =
        median(shown.pings.iter().filter(|(at, _)| *at >= from && *at <= ended).map(|(_, took)| *took));
    if direction == Direction::Up {
        let credits: Vec<u64> = within.iter().filter_map(|point| point.sample.ssh("send_credit")).collect();
        let closed = credits.iter().filter(|credit| **credit < CLOSED).count();
        flow.closed = closed as f64 / credits.len().max(1) as f64;
        let all = shown.local.iter().filter_map(|point| point.sample.ssh("send_credit"));
        flow.ssh_window = all.max().map(|bytes| bytes as f64);
        flow.constant_window = constant_window(&within);
    }
    let told = match direction {
        Direction::Up => shown.text(),
        Direction::Down => shown.err_text(),
    };
    let told: HashMap<&str, &str> = told.lines().filter_map(|line| line.split_once('=')).collect();
    let cpu = |name| told.get(name).copied().and_then(cpu_of_stat);
    if let (Some(before), Some(after)) = (cpu("p"), cpu("q")) {
        flow.server_cpu = Some((after - before) / (ended - begun).max(0.1));
    }
    let threads = |name| told.get(name).copied().map(thread_times);
    if let (Some(before), Some(after)) = (threads("b"), threads("e")) {
        flow.server_turns = turns(&before, &after, (ended - begun).max(0.1));
    }
    let groups = |name| told.get(name).copied().map(quota::groups);
    if let (Some(before), Some(after)) = (groups("g"), groups("h")) {
        flow.server_quota = quota::between(&before, &after);
    }
    flow.server_threads = Usage::of(&shown.remote);
    let remote: Vec<&Point> = shown.remote.iter().collect();
    if let Some(used) = share(&remote, |point| point.sample.ssh("cpu_micros")) {
        flow.server_cpu = Some(used);
    }
    let from_metrics = match direction {
        Direction::Up => sender(&shown.local.iter().collect::<Vec<_>>()),
        Direction::Down => sender(&remote),
    };
    flow.sender = from_metrics.or_else(|| told.get("s").and_then(|text| sender_of_ss(text)));
    flow
}

/// Lines of the form `PATH:RAN WAITED COUNT`, with a semicolon behind each (`/proc/PID/task/TID/schedstat`).
fn thread_times(text: &str) -> ThreadTimes {
    let line = |line: &str| {
        let (path, times) = line.split_once(':')?;
        let mut times = times.split_whitespace().map_while(|time| time.parse().ok());
        Some((path.to_owned(), (times.next()?, times.next()?)))
    };
    text.split(';').filter_map(line).collect()
}

/// The times of the threads of this process; none where the system does not tell.
fn own_thread_times() -> ThreadTimes {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return ThreadTimes::new() };
    let told = threads.flatten().filter_map(|thread| {
        let path = thread.path().join("schedstat");
        Some(format!("{}:{};", path.display(), std::fs::read_to_string(&path).ok()?))
    });
    thread_times(&told.collect::<String>())
}

/// The busiest thread between two looks, `seconds` apart.
fn turns(before: &ThreadTimes, after: &ThreadTimes, seconds: f64) -> Option<Turns> {
    let part = |after: u64, before: u64| (after.saturating_sub(before) as f64 / 1e9 / seconds).min(1.0);
    after
        .iter()
        .map(|(thread, &(ran, waited))| {
            let (ran_before, waited_before) = before.get(thread).copied().unwrap_or_default();
            Turns { ran: part(ran, ran_before), waited: part(waited, waited_before) }
        })
        .max_by(|a, b| a.wanted().total_cmp(&b.wanted()))
}

/// Growth of a counter of microseconds per time.
fn share(points: &[&Point], value: impl Fn(&Point) -> Option<u64>) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    let time = last.seconds - first.seconds;
    (time > 0.0).then_some(())?;
    Some(value(last)?.saturating_sub(value(first)?) as f64 / 1e6 / time)
}

/// The window of the peer's channels, bytes, where the samples in which it was used up show one size from the first
/// to the last: what TCP has not delivered yet, and the credit that is left.
fn constant_window(points: &[&Point]) -> Option<f64> {
    let window = |point: &&Point| {
        let credit = point.sample.ssh("send_credit")?;
        let under_way = point.sample.ssh("bytes_out")?.checked_sub(point.sample.tcp("bytes_acked")?)?;
        (credit < CLOSED).then_some((under_way + credit) as f64)
    };
    let part = points.len().div_ceil(PARTS).max(1);
    let largest = |points: &[&Point]| points.iter().filter_map(window).reduce(f64::max);
    let parts: Vec<f64> = points.chunks(part).map(largest).collect::<Option<_>>()?;
    let (least, most) = (lowest(parts.iter().copied())?, parts.iter().copied().reduce(f64::max)?);
    (most <= 1.2 * least).then_some(most)
}

fn longest_pause(points: &[&Point], count: impl Fn(&Point) -> Option<u64>) -> f64 {
    let mut longest = 0.0_f64;
    let mut moved: Option<(f64, u64)> = None;
    for point in points {
        let Some(now) = count(point) else { continue };
        match moved {
            // A handful of bytes are answers to pings.
            Some((since, before)) if now.saturating_sub(before) < 2048 => {
                longest = longest.max(point.seconds - since);
            }
            _ => moved = Some((point.seconds, now)),
        }
    }
    longest
}

fn sender(points: &[&Point]) -> Option<Sender> {
    let (first, last) = (points.first()?, points.last()?);
    let grown = |name: &'static str| {
        Some(last.sample.tcp(name)?.saturating_sub(first.sample.tcp(name).unwrap_or(0)) as f64)
    };
    let busy = grown("busy_time").filter(|busy| *busy > 0.0);
    let of_busy = |name| Some((grown(name)? / busy?).min(1.0));
    let segment = last.sample.tcp("snd_mss")? as f64;
    Some(Sender {
        receive_window: of_busy("rwnd_limited"),
        send_buffer: of_busy("sndbuf_limited"),
        segments: grown("data_segs_out")?,
        resent: grown("total_retrans")?,
        segment,
        window: points.iter().filter_map(|point| point.sample.tcp("snd_wnd")).max().map(|bytes| bytes as f64),
        congestion_window: last.sample.tcp("snd_cwnd").map(|segments| segments as f64 * segment),
        congestion_control: last.sample.congestion_control.clone(),
        loaded_rtt: median(
            points
                .iter()
                .skip(points.len() / 3)
                .filter_map(|point| Some(point.sample.tcp("rtt")? as f64 / 1e6)),
        ),
        paced: last.sample.tcp("max_pacing_rate").filter(|rate| *rate < u64::MAX / 2).map(|rate| rate as f64),
    })
}

/// What `ss -ti` shows of a socket: counters since the connection began.
fn sender_of_ss(text: &str) -> Option<Sender> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
    let number = |text: &str| -> Option<f64> {
        let digits = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        digits.parse().ok()
    };
    let millis = |name| value(name).and_then(number);
    let busy = millis("busy").filter(|busy| *busy > 0.0);
    let segment = number(value("mss")?)?;
    // `retrans:now/total`; not shown where there were none.
    let resent = value("retrans").and_then(|text| text.split_once('/')).and_then(|(_, total)| number(total));
    let known = ["cubic", "bbr", "reno", "htcp", "vegas", "westwood", "dctcp", "illinois", "bic"];
    let control = words.iter().find(|word| known.contains(word));
    // `pacing_rate NOW/LIMIT`; the limit is shown where there is one.
    let pacing = words.iter().position(|word| *word == "pacing_rate").and_then(|at| words.get(at + 1));
    let limit = pacing.and_then(|rates| rates.split_once('/')).and_then(|(_, limit)| bits_per_second(limit));
    Some(Sender {
        receive_window: busy.map(|busy| (millis("rwnd_limited").unwrap_or(0.0) / busy).min(1.0)),
        send_buffer: busy.map(|busy| (millis("sndbuf_limited").unwrap_or(0.0) / busy).min(1.0)),
        segments: number(value("data_segs_out")?)?,
        resent: resent.unwrap_or(0.0),
        segment,
        window: value("snd_wnd").and_then(number),
        congestion_window: value("cwnd").and_then(number).map(|segments| segments * segment),
        congestion_control: control.map(|name| (*name).to_owned()),
        loaded_rtt: value("rtt").and_then(number).map(|millis| millis / 1000.0),
        paced: limit.map(|bits| bits / 8.0),
    })
}

/// Reads a rate as `ss` prints it: `16Mbps`, `1.5Gbps`, `99000bps`.
fn bits_per_second(text: &str) -> Option<f64> {
    let digits = text.strip_suffix("bps")?;
    let (digits, factor) = match digits.chars().last()? {
        'K' => (digits.strip_suffix('K')?, 1e3),
        'M' => (digits.strip_suffix('M')?, 1e6),
        'G' => (digits.strip_suffix('G')?, 1e9),
        'T' => (digits.strip_suffix('T')?, 1e12),
        _ => (digits, 1.0),
    };
    Some(digits.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_statistics_of_the_server_are_read() {
        let text = "0 0 10.0.0.2:22 10.0.0.1:5 cubic wscale:7,7 rto:251 rtt:50.1/0.1 mss:1448 pmtu:1500 \
                    cwnd:100 bytes_sent:9 segs_out:7000 data_segs_out:6800 send 1Mbps busy:4000ms \
                    rwnd_limited:3000ms(75.0%) retrans:0/34 rcv_space:14480 snd_wnd:65536";
        let got = sender_of_ss(text).unwrap();
        assert_eq!((got.receive_window, got.send_buffer), (Some(0.75), Some(0.0)));
        assert_eq!((got.segments, got.resent, got.segment), (6800.0, 34.0, 1448.0));
        assert_eq!((got.window, got.congestion_window), (Some(65_536.0), Some(144_800.0)));
        assert_eq!(got.congestion_control.as_deref(), Some("cubic"));
        assert_eq!(got.paced, None);
        assert_eq!(sender_of_ss("nothing"), None);
    }

    #[test]
    fn rate_limit_of_the_server_s_socket_is_read() {
        let of = |rates: &str| {
            let text = format!("cubic rtt:50.1/0.1 mss:1448 data_segs_out:6800 send 1Mbps {rates} busy:4ms");
            sender_of_ss(&text).unwrap().paced
        };
        assert_eq!(of("pacing_rate 15.9Mbps/16Mbps delivery_rate 15Mbps"), Some(2e6));
        assert_eq!(of("pacing_rate 2Gbps/1.5Gbps"), Some(187.5e6));
        assert_eq!(of("pacing_rate 9bps/800bps"), Some(100.0));
        // No limit, and what is no rate.
        assert_eq!(of("pacing_rate 15.9Mbps delivery_rate 15Mbps"), None);
        assert_eq!(of("pacing_rate 15.9Mbps/fast"), None);
        assert_eq!(of("pacing_rate"), None);
    }

    /// Points of a sender that has sent this much more than TCP has delivered, with this credit left.
    fn under_way(windows: &[(u64, u64)]) -> Option<f64> {
        let point = |(index, (under_way, credit)): (usize, &(u64, u64))| {
            let acked = index as u64 * 500_000;
            let ssh = vec![("bytes_out", acked + under_way), ("send_credit", *credit)];
            let sample = lh_metrics::Sample { ssh, tcp: vec![("bytes_acked", acked)], ..Default::default() };
            Point { seconds: index as f64, sample }
        };
        let points: Vec<Point> = windows.iter().enumerate().map(point).collect();
        constant_window(&points.iter().collect::<Vec<_>>())
    }

    #[test]
    fn window_is_constant_where_its_size_never_changes() {
        let size = 262_144;
        assert_eq!(under_way(&[(size, 0), (size - 9000, 8000), (size, 0), (size - 5, 0)]), Some(262_144.0));
        // It grew; it was not used up at the end; there is no sample.
        assert_eq!(under_way(&[(size, 0), (2 * size, 0), (4 * size, 0)]), None);
        assert_eq!(under_way(&[(size, 0), (size, 0), (size - 100_000, 100_000)]), None);
        assert_eq!(under_way(&[]), None);
    }

    #[test]
    fn busiest_thread_is_the_one_that_ran_and_waited_most() {
        let before = thread_times("/proc/7/task/7/schedstat:1000000000 0 5;/proc/7/task/8/schedstat:0 0 0;");
        let after = thread_times(
            "/proc/7/task/7/schedstat:2200000000 2000000000 90;/proc/7/task/8/schedstat:900000000 9 9;;odd",
        );
        let got = turns(&before, &after, 4.0).unwrap();
        assert!((got.ran - 0.3).abs() < 1e-9 && (got.waited - 0.5).abs() < 1e-9, "{got:?}");
        assert_eq!(turns(&before, &thread_times("no such file"), 4.0), None);
        assert!(own_thread_times().values().any(|(ran, _)| *ran > 0));
    }

    #[test]
    fn pauses_are_found_between_samples() {
        let points: Vec<Point> = [(0.0, 0), (0.1, 9000), (0.2, 9100), (0.7, 9200), (0.8, 50_000)]
            .into_iter()
            .map(|(seconds, bytes)| Point {
                seconds,
                sample: lh_metrics::Sample { ssh: vec![("bytes_in", bytes)], ..Default::default() },
            })
            .collect();
        let got = longest_pause(&points.iter().collect::<Vec<_>>(), |point| point.sample.ssh("bytes_in"));
        assert!((got - 0.6).abs() < 1e-9, "{got}");
    }
}
