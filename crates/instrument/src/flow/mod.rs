//! A bulk flow in one direction, and what the ends counted meanwhile.

mod constant_window;
mod devices;
mod groups;
mod pauses;
mod received_marks;
mod scripts;
mod sender;
mod shapers;
mod stolen;
mod stopped;
mod taken;
mod turns;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lh_client::{SessionSetup, Start};
use lh_metrics::Point;
use lh_metrics::drops::{Drops, TcpCounters};
use lh_metrics::threads::Usage;

use self::constant_window::{CLOSED, constant_window};
use self::devices::Devices;
use self::groups::groups_here;
use self::received_marks::ReceivedMarks;
use self::sender::{looks_of_ss, mark_of_ss, part_of_looks, sender, sender_of_ss, starved, starved_of_ss};
use self::shapers::Shapers;
use self::stolen::{processors, processors_here, stolen};
use self::turns::{own_thread_times, thread_times, turns};
use crate::command::sh;
use crate::memory::{self, MemoryGroup, MemoryGroups};
use crate::quota::{self, Quota};
use crate::shell::{SHORT, cpu_of_stat};
use crate::stats::{lowest, median};
use crate::target::Remote;
use crate::task::{Comparison, Data, Opens, Shown, Task};
pub(crate) use devices::DeviceRate;
pub(crate) use pauses::Pauses;
pub(crate) use sender::Sender;
pub(crate) use shapers::Shaper;
pub(crate) use stopped::{Stopped, Tracer};
pub(crate) use turns::{TurnWaits, Turns};

/// Direction of a flow, seen from this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::Up, Self::Down];

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
        }
    }

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
/// Part of the samples in which the server's SSH window has to be closed for the command to set the rate.
pub(crate) const USED_UP: f64 = 0.5;
/// Key exchanges in a flow from which it is compared with one without.
pub(crate) const MANY_REKEYS: u64 = 3;
/// Pauses of a flow that count: at least this long, seconds, and this many round trips.
const PAUSE: (f64, f64) = (0.25, 4.0);

/// The bit of `options` in `struct tcp_info` (`TCPI_OPT_WSCALE`).
const WINDOW_SCALING: u64 = 4;
/// That of selective acknowledgements (`TCPI_OPT_SACK`).
const SELECTIVE_ACKS: u64 = 2;

/// The comparison that a flow is part of, and its number there.
pub(crate) type Part = Option<(Arc<Comparison>, usize)>;

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
    /// The largest SSH window that this end has granted the server, bytes; download only.
    pub(crate) granted_window: Option<f64>,
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
    /// The memory group of these processes whose limit cost most.
    pub(crate) client_memory: Option<MemoryGroup>,
    pub(crate) server_memory: Option<MemoryGroup>,
    /// The memory groups of the server's process with a limit, at the end.
    pub(crate) server_groups: MemoryGroups,
    /// Part of the busy time of the processors of each end that the hypervisor took.
    pub(crate) client_stolen: Option<f64>,
    pub(crate) server_stolen: Option<f64>,
    /// How often the server's process was found stopped, and what traces it.
    pub(crate) server_stopped: Option<Stopped>,
    pub(crate) server_tracer: Option<Tracer>,
    pub(crate) sender: Option<Sender>,
    /// Part of the looks at the sending end's TCP at which SSH had given it too little to send
    /// (`app_limited`).
    pub(crate) starved: Option<f64>,
    /// Part of the looks at the server's TCP at which SSH had left much in its receive queue; upload only.
    pub(crate) unread: Option<f64>,
    /// Bytes per second that the command at the server has read behind the warm-up; upload only.
    pub(crate) taken: Option<f64>,
    /// The course of the sending end's losses.
    pub(crate) drops: Option<Drops>,
    /// Whether windows may exceed 64 KiB: both ends have offered to scale them (RFC 7323 section 2).
    pub(crate) scales_windows: Option<bool>,
    /// Whether the receiver tells which segments arrived behind a lost one (RFC 2018).
    pub(crate) acknowledges_selectively: Option<bool>,
    /// The type-of-service byte that the server's socket marks its packets with; download only.
    pub(crate) mark: Option<u8>,
    /// Key exchanges behind the warm-up, and the bytes of the flow between two of them.
    pub(crate) rekeys: u64,
    pub(crate) bytes_per_rekey: f64,
    /// Times without progress.
    pub(crate) pauses: Pauses,
    /// Part of the packets at the receiving system that arrived with a congestion mark (ECN).
    pub(crate) marked: Option<f64>,
    /// Bytes that this process or the server's SSH process moved in all.
    pub(crate) moved: f64,
    /// Traffic of each end's network devices during the transfer.
    pub(crate) client_devices: Vec<DeviceRate>,
    pub(crate) server_devices: Vec<DeviceRate>,
    /// Shapers of the sending end's devices, with what they counted during the transfer.
    pub(crate) shapers: Vec<Shaper>,
    /// Why there is no result, or half of one.
    pub(crate) failure: Option<String>,
}

impl Flow {
    /// Returns whether the samples suffice for a verdict.
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
        mine.spurious += others.spurious;
        mine.reordered += others.reordered;
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

impl Remote {
    /// Runs a flow for this time.
    pub(crate) fn flow(&mut self, direction: Direction, time: Duration) -> Flow {
        self.flow_of(Opens::Session, direction, time, None)
    }

    /// Runs a flow that may end before this time where it is only compared with another.
    pub(crate) fn compared_flow(&mut self, direction: Direction, time: Duration, part: Part) -> Flow {
        self.flow_of(Opens::Session, direction, time, part)
    }

    /// Like [`compared_flow`](Self::compared_flow), between two sessions with a terminal.
    pub(crate) fn flow_among_terminals(&mut self, direction: Direction, time: Duration, part: Part) -> Flow {
        self.flow_of(Opens::AmongTerminals, direction, time, part)
    }

    fn flow_of(
        &mut self,
        opens: fn(SessionSetup) -> Opens,
        direction: Direction,
        time: Duration,
        comparison: Part,
    ) -> Flow {
        let (script, data) = match direction {
            Direction::Up => (scripts::take(), Data::Send(time, u64::MAX)),
            Direction::Down => (scripts::give(), Data::Receive(time)),
        };
        let shapers = (direction == Direction::Up).then(Shapers::here);
        let ((quotas, memory), busy) = (groups_here(), processors_here());
        let (marks, devices) = (ReceivedMarks::here(), Devices::here());
        let (begun, before) = (Instant::now(), own_thread_times());
        let shown = self.run(Task {
            opens: opens(SessionSetup::new(Start::Exec(sh(&script)))),
            data,
            input: Vec::new(),
            sample: Some(SAMPLE),
            // A master does not pass such messages on.
            ping: (!self.client.is_relayed()).then_some(PING),
            limit: SHORT,
            hold: None,
            comparison,
        });
        let mut flow = summarise(direction, &shown);
        flow.client_devices = Devices::here().since(&devices, begun.elapsed().as_secs_f64());
        if let Some(before) = shapers {
            flow.shapers = Shapers::here().since(&before);
        }
        flow.client_turns = turns(&before, &own_thread_times(), begun.elapsed().as_secs_f64());
        let (quotas_after, memory_after) = groups_here();
        flow.client_quota = quota::between(&quotas, &quotas_after);
        flow.client_memory = memory::between(&memory, &memory_after);
        flow.client_stolen = busy.zip(processors_here()).and_then(|(before, after)| stolen(before, after));
        if direction == Direction::Down {
            flow.marked =
                marks.zip(ReceivedMarks::here()).and_then(|(before, after)| after.part_since(before));
        }
        flow
    }

    /// A download through a forward to `address`, where a helper sends when it has this line. There is no
    /// session.
    pub(crate) fn forwarded_download(
        &mut self,
        address: SocketAddr,
        line: String,
        time: Duration,
        comparison: Part,
    ) -> Flow {
        let shown = self.run(Task {
            opens: Opens::Forward(address),
            data: Data::Receive(time),
            input: line.into_bytes(),
            sample: Some(SAMPLE),
            ping: Some(PING),
            limit: SHORT,
            hold: None,
            comparison,
        });
        summarise(Direction::Down, &shown)
    }
}

fn summarise(direction: Direction, shown: &Shown) -> Flow {
    let moved = moved(direction, shown);
    let mut flow = Flow { failure: shown.failure.clone(), moved, ..Flow::default() };
    let Some((begun, ended)) = shown.data else { return flow };
    flow.seconds = ended - begun;
    let from = shown.steady.unwrap_or(begun + (ended - begun) * WARM_UP);
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
    flow.client_threads = Usage::of(within.iter().copied());
    let all = || shown.local.iter().filter_map(|point| point.sample.tcp("min_rtt"));
    flow.least_rtt = lowest(all().filter(|micros| *micros > 0).map(|micros| micros as f64 / 1e6));
    let least = PAUSE.0.max(PAUSE.1 * flow.least_rtt.unwrap_or(0.0));
    // All of the flow: what starts slowly has no pause of that length.
    let all_of_it: Vec<&Point> =
        shown.local.iter().filter(|point| point.seconds >= begun && point.seconds <= ended + 0.01).collect();
    flow.pauses = Pauses::of(&all_of_it, count, least);
    let until_the_end: Vec<&Point> = shown.local.iter().filter(|point| point.seconds >= begun).collect();
    flow.pauses.endless = pauses::endless(&until_the_end, count, ended);
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
        flow.starved = starved(&within);
    }
    let text = match direction {
        Direction::Up => shown.text(),
        Direction::Down => shown.err_text(),
    };
    let told: HashMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
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
    let memory = |name| told.get(name).copied().map(memory::groups);
    if let (Some(before), Some(after)) = (memory("j"), memory("w")) {
        flow.server_memory = memory::between(&before, &after);
        flow.server_groups = after;
    }
    let devices = |name| told.get(name).copied().map(Devices::of);
    if let (Some(before), Some(after)) = (devices("D"), devices("E")) {
        flow.server_devices = after.since(&before, (ended - begun).max(0.1));
    }
    flow.unread = told.get("U").and_then(|text| part_of_looks(text));
    flow.taken = taken::rate_of_looks(&text, WARM_UP);
    // Windows that grow let TCP deliver in the first moment what the command takes for the rest of the time.
    if let Some(taken) = flow.taken.filter(|_| flow.closed >= USED_UP) {
        flow.rate = taken;
    }
    flow.server_stopped = told.get("T").and_then(|text| Stopped::of(text));
    flow.server_tracer = told.get("R").and_then(|text| Tracer::of(text));
    let busy = |name| told.get(name).copied().and_then(processors);
    flow.server_stolen = busy("y").zip(busy("z")).and_then(|(before, after)| stolen(before, after));
    let marks = |name| told.get(name).copied().and_then(ReceivedMarks::of_netstat);
    flow.marked = marks("m").zip(marks("n")).and_then(|(before, after)| after.part_since(before));
    flow.server_threads = Usage::of(&shown.remote);
    let remote: Vec<&Point> = shown.remote.iter().collect();
    if let Some(used) = share(&remote, |point| point.sample.ssh("cpu_micros")) {
        flow.server_cpu = Some(used);
    }
    let from_metrics = match direction {
        Direction::Up => sender(&shown.local.iter().collect::<Vec<_>>()),
        Direction::Down => sender(&remote),
    };
    let looks: Vec<TcpCounters> = match &from_metrics {
        Some(_) if direction == Direction::Up => shown.local.iter().filter_map(TcpCounters::of).collect(),
        Some(_) => shown.remote.iter().filter_map(TcpCounters::of).collect(),
        None => looks_of_ss(&text),
    };
    flow.drops = Drops::of(&looks);
    if direction == Direction::Down {
        flow.starved = starved(&remote).or_else(|| starved_of_ss(&text));
        let granted = within.iter().filter_map(|point| point.sample.ssh("receive_window")).max();
        flow.granted_window = granted.map(|bytes| bytes as f64);
        let shapers = |name| told.get(name).copied().map(Shapers::of);
        if let (Some(before), Some(after)) = (shapers("B"), shapers("F")) {
            flow.shapers = after.since(&before);
        }
    }
    flow.mark = told.get("o").and_then(|text| mark_of_ss(text));
    flow.sender = from_metrics.or_else(|| told.get("s").and_then(|text| sender_of_ss(text)));
    flow
}

/// Bytes that SSH has moved in all.
fn moved(direction: Direction, shown: &Shown) -> f64 {
    let name = if direction == Direction::Up { "bytes_out" } else { "bytes_in" };
    let mut counts = shown.local.iter().filter_map(|point| point.sample.ssh(name));
    let first = counts.next().unwrap_or(0);
    counts.next_back().unwrap_or(first).saturating_sub(first) as f64
}

/// Growth of a counter of microseconds per time.
fn share(points: &[&Point], value: impl Fn(&Point) -> Option<u64>) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    let time = last.seconds - first.seconds;
    (time > 0.0).then_some(())?;
    Some(value(last)?.saturating_sub(value(first)?) as f64 / 1e6 / time)
}
