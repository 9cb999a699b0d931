//! Computes the result of a flow from the samples of both ends and from what the server's script printed.

use std::collections::HashMap;

use lh_metrics::Point;
use lh_metrics::drops::{Drops, TcpCounters};
use lh_metrics::threads::Usage;

use super::constant_window::{CLOSED, constant_window};
use super::devices::Devices;
use super::direction::Direction;
use super::pauses::{self, Pauses};
use super::received_marks::ReceivedMarks;
use super::result::{
    Application, EndUsage, Flow, Packets, Rekeys, SAMPLES, SshWindows, Tcp, USED_UP, WARM_UP,
};
use super::scheduling::Scheduling;
use super::sender::{
    last_look_of_ss, looks_of_ss, mark_of_ss, part_of_looks, sender, sender_of_ss, starved, starved_of_ss,
};
use super::shapers::Shapers;
use super::stolen::{idle, processors, stolen};
use super::stopped::{Stopped, Tracer};
use super::taken;
use super::turns::{thread_times, turns};
use crate::memory;
use crate::quota;
use crate::shell::cpu_of_stat;
use crate::stats::{lowest, median};
use crate::task::Shown;

/// Pauses of a flow that count: at least this long, seconds, and this many round trips.
const PAUSE: (f64, f64) = (0.25, 4.0);

/// The bit of `options` in `struct tcp_info` (`TCPI_OPT_WSCALE`).
const WINDOW_SCALING: u64 = 4;
/// That of selective acknowledgements (`TCPI_OPT_SACK`).
const SELECTIVE_ACKS: u64 = 2;

/// Lines of the server's script, by the letter that each begins with.
type Told<'a> = HashMap<&'a str, &'a str>;

/// Computes the result of a flow, all but what this end measures around it.
pub(super) fn summarise(direction: Direction, shown: &Shown) -> Flow {
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
        let rekeys = exchanges(last).saturating_sub(exchanges(first));
        flow.rekeys = Rekeys { count: rekeys, bytes_each: flow.rate * time / rekeys.max(1) as f64 };
        let cpu = |point: &Point| point.sample.ssh("cpu_micros");
        if let (Some(before), Some(after)) = (cpu(first), cpu(last)) {
            flow.client.cpu = Some(after.saturating_sub(before) as f64 / 1e6 / time);
        }
    }
    // Where packets take long to open, samples are rare, and several come at one time.
    if flow.rate <= 0.0 && within.len() < SAMPLES && shown.failure.is_none() {
        let bytes = match direction {
            Direction::Up => shown.moved.sent,
            Direction::Down => shown.moved.received,
        };
        // What was under way at the end of the data still arrives.
        let seconds = shown.ended.unwrap_or(ended).max(ended) - begun;
        flow.rate = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
    }
    flow.client.threads = Usage::of(within.iter().copied());
    flow.ping =
        median(shown.pings.iter().filter(|(at, _)| *at >= from && *at <= ended).map(|(_, took)| *took));
    let text = match direction {
        Direction::Up => shown.text(),
        Direction::Down => shown.err_text(),
    };
    let told: Told<'_> = text.lines().filter_map(|line| line.split_once('=')).collect();
    flow.windows = ssh_windows(direction, shown, &within);
    flow.application = application(direction, shown, &within, &text, &told);
    // Windows that grow let TCP deliver in the first moment what the command takes for the rest of the time.
    if let Some(taken) = flow.application.taken.filter(|_| flow.windows.closed >= USED_UP) {
        flow.rate = taken;
    }
    flow.tcp = tcp(direction, shown, &text, &told);
    let least = PAUSE.0.max(PAUSE.1 * flow.tcp.least_rtt.unwrap_or(0.0));
    // All of the flow: what starts slowly has no pause of that length.
    let all_of_it: Vec<&Point> =
        shown.local.iter().filter(|point| point.seconds >= begun && point.seconds <= ended + 0.01).collect();
    flow.pauses = Pauses::of(&all_of_it, count, least);
    let until_the_end: Vec<&Point> = shown.local.iter().filter(|point| point.seconds >= begun).collect();
    flow.pauses.endless = pauses::endless(&until_the_end, count, ended);
    flow.packets = packets(direction, &told);
    flow.server = server_usage(&told, &shown.remote, (ended - begun).max(0.1));
    flow
}

/// Reads the channel's windows from the samples of this end.
fn ssh_windows(direction: Direction, shown: &Shown, within: &[&Point]) -> SshWindows {
    match direction {
        Direction::Up => {
            let credits: Vec<u64> =
                within.iter().filter_map(|point| point.sample.ssh("send_credit")).collect();
            let closed = credits.iter().filter(|credit| **credit < CLOSED).count();
            let all = shown.local.iter().filter_map(|point| point.sample.ssh("send_credit"));
            SshWindows {
                closed: closed as f64 / credits.len().max(1) as f64,
                server: all.max().map(|bytes| bytes as f64),
                constant: constant_window(within),
                granted: None,
            }
        }
        Direction::Down => {
            let granted = within.iter().filter_map(|point| point.sample.ssh("receive_window")).max();
            SshWindows { granted: granted.map(|bytes| bytes as f64), ..SshWindows::default() }
        }
    }
}

/// Reads what SSH and the command gave TCP and took from it.
fn application(
    direction: Direction,
    shown: &Shown,
    within: &[&Point],
    text: &str,
    told: &Told<'_>,
) -> Application {
    let remote: Vec<&Point> = shown.remote.iter().collect();
    Application {
        starved: match direction {
            Direction::Up => starved(within),
            Direction::Down => starved(&remote).or_else(|| starved_of_ss(text)),
        },
        unread: told.get("U").and_then(|text| part_of_looks(text)),
        taken: taken::rate_of_looks(text, WARM_UP),
    }
}

/// Reads the connection's TCP: the samples of the sending end, or else what `ss` printed there.
fn tcp(direction: Direction, shown: &Shown, text: &str, told: &Told<'_>) -> Tcp {
    let all = shown.local.iter().filter_map(|point| point.sample.tcp("min_rtt"));
    let options = shown.local.iter().find_map(|point| point.sample.tcp("options"));
    let points = match direction {
        Direction::Up => &shown.local,
        Direction::Down => &shown.remote,
    };
    let from_metrics = sender(&points.iter().collect::<Vec<_>>());
    let looks: Vec<TcpCounters> = match &from_metrics {
        Some(_) => points.iter().filter_map(TcpCounters::of).collect(),
        None => looks_of_ss(text),
    };
    Tcp {
        least_rtt: lowest(all.filter(|micros| *micros > 0).map(|micros| micros as f64 / 1e6)),
        sender: from_metrics
            .or_else(|| told.get("s").and_then(|text| sender_of_ss(text)))
            // A download that ends with its connection tells no more than the last look.
            .or_else(|| last_look_of_ss(text)),
        drops: Drops::of(&looks),
        added_drops: Vec::new(),
        scales_windows: options.map(|options| options & WINDOW_SCALING != 0),
        acknowledges_selectively: options.map(|options| options & SELECTIVE_ACKS != 0),
    }
}

/// Reads what the server's script tells of marks and shapers.
fn packets(direction: Direction, told: &Told<'_>) -> Packets {
    let marks = |name| told.get(name).copied().and_then(ReceivedMarks::of_netstat);
    let shapers = |name| told.get(name).copied().map(Shapers::of);
    let both = shapers("B").zip(shapers("F")).filter(|_| direction == Direction::Down);
    Packets {
        mark: told.get("o").and_then(|text| mark_of_ss(text)),
        marked: marks("m").zip(marks("n")).and_then(|(before, after)| after.part_since(before)),
        shapers: both.map(|(before, after)| after.since(&before)).unwrap_or_default(),
    }
}

/// Reads what the server used in these seconds, from what its script tells and from its samples, which have
/// the processor time of all of its process.
fn server_usage(told: &Told<'_>, remote: &[Point], seconds: f64) -> EndUsage {
    let mut server = EndUsage::default();
    let cpu = |name| told.get(name).copied().and_then(cpu_of_stat);
    let of_script = cpu("p").zip(cpu("q")).map(|(before, after)| (after - before) / seconds);
    let points: Vec<&Point> = remote.iter().collect();
    server.cpu = share(&points, |point| point.sample.ssh("cpu_micros")).or(of_script);
    let threads = |name| told.get(name).copied().map(thread_times);
    if let (Some(before), Some(after)) = (threads("b"), threads("e")) {
        server.turns = turns(&before, &after, seconds);
    }
    server.threads = Usage::of(remote);
    let groups = |name| told.get(name).copied().map(quota::groups);
    if let (Some(before), Some(after)) = (groups("g"), groups("h")) {
        server.quota = quota::between(&before, &after);
    }
    let memory = |name| told.get(name).copied().map(memory::groups);
    if let (Some(before), Some(after)) = (memory("j"), memory("w")) {
        server.memory = memory::between(&before, &after);
        server.memory_groups = after;
    }
    let busy = |name| told.get(name).copied().and_then(processors);
    let busy = busy("y").zip(busy("z"));
    server.stolen = busy.and_then(|(before, after)| stolen(before, after));
    let text = |name| told.get(name).copied().unwrap_or_default();
    server.scheduling = Scheduling::of(text("q"), text("A"), text("T"));
    server.idle =
        busy.filter(|_| server.scheduling.may_use_all()).and_then(|(before, after)| idle(before, after));
    server.stopped = told.get("T").and_then(|text| Stopped::of(text));
    server.tracer = told.get("R").and_then(|text| Tracer::of(text));
    let devices = |name| told.get(name).copied().map(Devices::of);
    if let (Some(before), Some(after)) = (devices("D"), devices("E")) {
        server.devices = after.since(&before, seconds);
    }
    server
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

#[cfg(test)]
mod tests;
