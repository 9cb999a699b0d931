//! Finds what limited a copy, and advice, from the kernel's counters of this process and its connection.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use lh_metrics::ThreadTime;
use lh_metrics::loss::{LEAST_SEGMENTS, is_bbr, limits_rate};
use lh_metrics::threads::{self, Usage};
use lh_sys::tcp_info::TcpInfo;
use lh_sys::time::process_cpu;
use lh_transfer::{Direction, Waits};

/// Counters after the login, when data can flow; compared with those at the end.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    at: Instant,
    cpu: Duration,
    threads: Vec<ThreadTime>,
    /// CPU time of the busiest thread that has ended.
    ended: Duration,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// One word for programs.
    pub(crate) name: &'static str,
    /// The limit, for people.
    pub(crate) what: String,
    /// Advice against the limit.
    pub(crate) advice: String,
}

/// The kernel's counters of the connection.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Path {
    /// Smallest round trip.
    pub(crate) round_trip: Option<Duration>,
    /// Largest segment, bytes; of the direction in which the data went.
    pub(crate) segment: f64,
    /// Segments with data that were sent.
    pub(crate) sent: f64,
    /// Segments of these that were retransmitted.
    pub(crate) sent_again: f64,
    /// Segments with data that were received.
    pub(crate) received: f64,
    /// Segments of these that arrived after a gap: an earlier one was lost or overtaken.
    pub(crate) after_gaps: f64,
    /// Time in which TCP had data to send, and the part of it in which the receiver's window was closed.
    pub(crate) busy: Option<[Duration; 2]>,
    /// Name of the congestion control of this end.
    pub(crate) congestion_control: Option<String>,
}

/// Shortest copy that is judged: before that TCP's slow start is what takes time.
const LEAST_TIME: Duration = Duration::from_millis(500);
/// Bytes on the way below which neither windows nor the number of requests limit a copy.
const SHORT_PATH: f64 = 1e6;
/// After each loss about a round trip's worth of segments comes after a gap.
const GAP: f64 = 16.0;
impl Path {
    /// Reads the counters of an open socket.
    pub(crate) fn of(socket: impl AsFd) -> Self {
        let round_trip = lh_sys::socket::round_trip(&socket);
        let info = TcpInfo::of(&socket);
        let micros = |name| info.as_ref().and_then(|info| info.get(name)).map(Duration::from_micros);
        let count = |name| info.as_ref().and_then(|info| info.get(name)).unwrap_or(0) as f64;
        Self {
            round_trip,
            segment: count("snd_mss").max(count("rcv_mss")),
            sent: count("data_segs_out"),
            sent_again: count("total_retrans"),
            received: count("data_segs_in"),
            after_gaps: count("rcv_ooopack"),
            busy: micros("busy_time").zip(micros("rwnd_limited")).map(Into::into),
            congestion_control: lh_sys::tuning::congestion_control(&socket),
        }
    }

    /// Part of the data that was lost on the way, where enough went by to tell.
    fn lost(&self, direction: Direction) -> Option<f64> {
        let (bad, all) = match direction {
            Direction::Upload => (self.sent_again, self.sent),
            _ => (self.after_gaps / GAP, self.received),
        };
        (all >= LEAST_SEGMENTS && bad >= 1.0).then(|| bad / all)
    }

    /// The part of the data that was lost, where that is what holds the sender to `rate` bytes/s.
    fn limiting_loss(&self, direction: Direction, rate: f64) -> Option<f64> {
        let lost = self.lost(direction)?;
        // The congestion control of the other end, which counts for downloads, is not known.
        let control = self.congestion_control.as_deref().filter(|_| direction == Direction::Upload);
        limits_rate(lost, self.segment, self.round_trip?.as_secs_f64(), rate, control).then_some(lost)
    }

    fn uses_bbr(&self) -> bool {
        is_bbr(self.congestion_control.as_deref())
    }
}

impl Start {
    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), cpu: process_cpu(), threads: threads::own(), ended: Duration::ZERO }
    }

    /// Records the CPU time of a thread of the copy that has ended.
    pub(crate) fn thread_ended(&mut self, cpu: Duration) {
        self.ended = self.ended.max(cpu);
    }

    /// CPU time of the busiest thread: several that share the work are no limit together. Where that cannot
    /// be read, that of all threads.
    fn busiest(&self) -> Duration {
        let all = process_cpu().saturating_sub(self.cpu);
        let busiest = busiest(&self.threads, &threads::own(), self.elapsed());
        // Ticks are rounded.
        busiest.map_or(all, |busiest| busiest.max(self.ended).min(all))
    }

    /// Since then.
    pub(crate) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }

    /// Returns the limit of the copy that has just ended.
    pub(crate) fn verdict(&self, copy: &Copy, path: &Path) -> Verdict {
        judge(copy, path, self.elapsed(), self.busiest())
    }
}

/// CPU time of the busiest thread; `None` where the system does not tell.
fn busiest(before: &[ThreadTime], now: &[ThreadTime], elapsed: Duration) -> Option<Duration> {
    let usage = Usage::between([(0.0, before), (elapsed.as_secs_f64(), now)])?;
    Some(elapsed.mul_f64(usage.share))
}

fn share(part: Duration, whole: Duration) -> f64 {
    part.as_secs_f64() / whole.as_secs_f64().max(1e-9)
}

/// Measurements of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copy {
    /// Direction of the data.
    pub(crate) direction: Direction,
    /// Requested rate limit, bytes/s.
    pub(crate) rate_limit: Option<u64>,
    /// Bytes that went over the connection.
    pub(crate) bytes: u64,
    /// Time by what the copy waited for.
    pub(crate) waits: Waits,
}

/// `cpu` is the CPU time of the busiest thread.
fn judge(copy: &Copy, path: &Path, elapsed: Duration, cpu: Duration) -> Verdict {
    let Copy { direction, rate_limit, bytes, waits } = *copy;
    let rate = bytes as f64 / elapsed.as_secs_f64().max(1e-9);
    let percent = |part: Duration| format!("{:.0} %", share(part, elapsed).min(1.0) * 100.0);
    let round_trip = path.round_trip.map_or_else(String::new, |round_trip| {
        let millis = round_trip.as_secs_f64() * 1000.0;
        match millis {
            ..0.1 => ", round trip under 0.1 ms".to_owned(),
            _ => format!(", round trip {millis:.1} ms"),
        }
    });
    if elapsed < LEAST_TIME {
        return Verdict {
            name: "nothing",
            what: "nothing: it was over too soon".to_owned(),
            advice: String::new(),
        };
    }
    if rate_limit.is_some_and(|limit| rate >= 0.8 * limit as f64) {
        return Verdict {
            name: "request",
            what: "the rate that was asked for (-l, --pace)".to_owned(),
            advice: "a higher limit".to_owned(),
        };
    }
    if share(waits.disk, elapsed) > 0.4 {
        return Verdict {
            name: "disk",
            what: format!(
                "this host's disk: {} of the time went into reading and writing files",
                percent(waits.disk)
            ),
            advice: "a faster disk or file system here; without --fsync, if it was given".to_owned(),
        };
    }
    if share(cpu, elapsed) >= threads::FULL {
        return Verdict {
            name: "processor",
            what: format!("this host's processor: one thread kept a core busy for {} of the time", percent(cpu)),
            advice: "a cipher that the processor has instructions for (-c aes128-gcm@openssh.com), no compression (-C)"
                .to_owned(),
        };
    }
    if let Some(lost) = path.limiting_loss(direction, rate) {
        let what = match direction {
            Direction::Upload => {
                format!("{:.2} % of {:.0} segments had to be sent again", lost * 100.0, path.sent)
            }
            _ => {
                let part = path.after_gaps / path.received.max(1.0) * 100.0;
                format!("{part:.2} % of {:.0} segments came after a gap", path.received)
            }
        };
        let other = "--pace a little below what the path carries, several connections (-j)";
        let advice = match (&path.congestion_control, direction) {
            (Some(_), Direction::Upload) if path.uses_bbr() => other.to_owned(),
            (Some(name), Direction::Upload) => {
                format!(
                    "bbr instead of {name} here (net.ipv4.tcp_congestion_control or TcpCongestion), {other}"
                )
            }
            _ => format!("bbr on the sending host, if it is not in use there, {other}"),
        };
        return Verdict { name: "loss", what: format!("loss on the way: {what}{round_trip}"), advice };
    }
    if direction == Direction::Upload && share(waits.window, elapsed) > 0.5 {
        return window_was_full(path, elapsed, &percent(waits.window), &round_trip);
    }
    if share(waits.answers, elapsed) > 0.5 {
        // More requests help only where the path holds more than a few.
        let holds = path.round_trip.map_or(f64::INFINITY, |round_trip| rate * round_trip.as_secs_f64());
        let more = if holds < SHORT_PATH { "" } else { "; more in flight (-X nrequests=)" };
        return Verdict {
            name: "server",
            what: format!(
                "the server or the way there: for {} of the time everything that may be in flight was{round_trip}",
                percent(waits.answers)
            ),
            advice: format!("a faster disk or processor there{more}"),
        };
    }
    Verdict {
        name: "server",
        what: format!("nothing here: the server, or the way there{round_trip}"),
        advice: "a look at the server's processor and disk".to_owned(),
    }
}

/// Verdict on an upload that waited for space to send, by what TCP did meanwhile. `part` is the part of the
/// time that it waited.
fn window_was_full(path: &Path, elapsed: Duration, part: &str, round_trip: &str) -> Verdict {
    let [busy, closed] = path.busy.map_or([None, None], |times| times.map(|time| Some(share(time, elapsed))));
    let takes = "a faster disk or processor there";
    if closed.is_some_and(|closed| closed > 0.3) {
        let closed = closed.unwrap_or_default().min(1.0) * 100.0;
        return Verdict {
            name: "server",
            what: format!("the server: it closed its TCP window for {closed:.0} % of the time{round_trip}"),
            advice: format!("{takes}; on a long path larger buffers there (net.ipv4.tcp_rmem)"),
        };
    }
    if busy.is_some_and(|busy| busy < 0.5) {
        return Verdict {
            name: "server",
            what: format!(
                "the server: for {part} of the time it let nothing more be sent, while the network was idle{round_trip}"
            ),
            advice: format!("{takes}; several connections (-j) where it is no Longhaul server"),
        };
    }
    Verdict {
        name: "network",
        what: format!(
            "the network or the server's window: for {part} of the time there was no space to send{round_trip}"
        ),
        advice: "several connections (-j), a server that grants larger windows".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NONE: Waits = Waits { disk: Duration::ZERO, window: Duration::ZERO, answers: Duration::ZERO };

    fn part(percent: u64) -> Duration {
        Duration::from_millis(percent * 10)
    }

    fn copy(direction: Direction, waits: Waits) -> Copy {
        Copy { direction, rate_limit: None, bytes: 10_000_000, waits }
    }

    #[test]
    fn each_limit_is_recognised_by_its_evidence() {
        let name = |copy: Copy, cpu| judge(&copy, &Path::default(), SECOND, cpu).name;
        let (up, down) = (Direction::Upload, Direction::Download);
        let limited = |limit| Copy { rate_limit: Some(limit), ..copy(up, NONE) };
        assert_eq!(name(limited(11_000_000), part(95)), "request");
        assert_eq!(name(limited(90_000_000), part(95)), "processor", "a limit that was never reached");
        assert_eq!(name(copy(up, Waits { disk: part(60), ..NONE }), part(95)), "disk");
        assert_eq!(name(copy(down, NONE), part(95)), "processor");
        assert_eq!(name(copy(up, Waits { window: part(80), ..NONE }), part(30)), "network");
        assert_eq!(name(copy(down, Waits { answers: part(80), ..NONE }), part(30)), "server");
        assert_eq!(judge(&limited(1), &Path::default(), part(3), part(3)).name, "nothing");
    }

    #[test]
    fn four_threads_that_share_the_work_are_no_limit() {
        let name = |now: &[u64]| {
            let at = |times: &[u64]| -> Vec<ThreadTime> {
                let thread = |(id, percent): (u32, &u64)| ThreadTime {
                    id,
                    name: "packets".to_owned(),
                    cpu_micros: percent * 10_000,
                };
                (1..).zip(times).map(thread).collect()
            };
            // One has worked before, and one is new.
            let (before, now) = (at(&[500, 0, 0]), at(now));
            let cpu = busiest(&before, &now, SECOND).expect("threads");
            judge(&copy(Direction::Upload, NONE), &Path::default(), SECOND, cpu).name
        };
        assert_eq!(name(&[530, 30, 30, 30]), "server");
        assert_eq!(name(&[530, 30, 30, 95]), "processor");
    }

    /// A path of 10 ms on which 1 of 100 segments is lost.
    fn lossy() -> Path {
        Path {
            round_trip: Some(part(1)),
            segment: 1448.0,
            sent: 50_000.0,
            sent_again: 500.0,
            received: 50_000.0,
            after_gaps: 5000.0,
            busy: None,
            congestion_control: Some("cubic".to_owned()),
        }
    }

    #[test]
    fn waiting_to_send_is_judged_by_what_tcp_did() {
        let waited = copy(Direction::Upload, Waits { window: part(90), ..NONE });
        let judged = |busy, closed| {
            let path = Path { busy: Some([part(busy), part(closed)]), ..Path::default() };
            judge(&waited, &path, SECOND, part(30))
        };
        let got = judged(95, 80);
        assert_eq!((got.name, got.what.contains("TCP window for 80 %")), ("server", true), "{got:?}");
        let got = judged(20, 0);
        assert_eq!((got.name, got.what.contains("network was idle")), ("server", true), "{got:?}");
        assert_eq!(judged(95, 5).name, "network");
    }

    #[test]
    fn more_requests_are_advised_only_for_paths_that_hold_them() {
        let waited = copy(Direction::Download, Waits { answers: part(90), ..NONE });
        let advice = |round_trip| {
            let path = Path { round_trip: Some(round_trip), ..Path::default() };
            judge(&waited, &path, SECOND, part(30)).advice
        };
        assert!(!advice(Duration::from_micros(50)).contains("nrequests"));
        assert!(advice(Duration::from_millis(200)).contains("nrequests"));
    }

    #[test]
    fn loss_is_blamed_only_where_it_can_be_the_limit() {
        let judged = |direction, path: Path, cpu| judge(&copy(direction, NONE), &path, SECOND, cpu);
        let (up, down) = (Direction::Upload, Direction::Download);
        let got = judged(up, lossy(), part(30));
        assert_eq!((got.name, got.advice.contains("bbr instead of cubic here")), ("loss", true), "{got:?}");
        assert!(got.what.contains("1.00 % of 50000 segments"), "{got:?}");
        assert_eq!(judged(up, lossy(), part(95)).name, "processor");
        let got = judged(down, lossy(), part(30));
        assert_eq!((got.name, got.advice.contains("on the sending host")), ("loss", true), "{got:?}");

        // BBR does not slow down for so little, and is not advised where it runs.
        let bbr = Path { congestion_control: Some("bbr".to_owned()), ..lossy() };
        assert_eq!(judged(up, bbr.clone(), part(30)).name, "server");
        let got = judged(up, Path { sent_again: 5000.0, ..bbr }, part(30));
        assert_eq!((got.name, got.advice.contains("bbr")), ("loss", false), "{got:?}");
        // On loopback the same loss permits a hundred times the rate.
        let loopback = Path { round_trip: Some(Duration::from_micros(50)), segment: 65_483.0, ..lossy() };
        assert_eq!(judged(up, loopback, part(30)).name, "server");
        // A handful of segments is chance.
        let few = Path { sent: 500.0, sent_again: 5.0, ..lossy() };
        assert_eq!(judged(up, few, part(30)).name, "server");
    }
}
