//! Memory limits of control groups that stop, stall or kill SSH processes.

use super::facts::{Systems, Throughput};
use super::finding::{Finding, weight_of_factor};
use super::judged::{EACH_IS_LIMITED, MUCH};
use crate::flow::{Direction, Flow};
use crate::memory::MemoryGroup;
use crate::stats::{percent, rate, size};

/// Causes that a shortage of TCP's memory seems to be.
const SEEMS: [&str; 7] =
    ["path", "loss", "congestion_control", "busy_machine", "policer", "receive_buffer", "send_buffer"];

/// The group of one end.
type GroupOf = fn(&Flow) -> Option<&MemoryGroup>;

/// The group of an end whose limit cost most in the transfers.
fn worst(throughput: &Throughput, of: GroupOf) -> Option<(&Flow, &MemoryGroup)> {
    throughput.flows().filter_map(|flow| Some((flow, of(flow)?))).max_by(|(_, a), (_, b)| {
        (a.killed, a.is_tcp_short()).cmp(&(b.killed, b.is_tcp_short())).then(a.stalled.total_cmp(&b.stalled))
    })
}

/// Finds memory limits that cost something. What they explain is taken out of `found`.
pub(super) fn judge(systems: &Systems, throughput: &Throughput, found: &mut Vec<Finding>) {
    let ends: [(&str, GroupOf); 2] = [
        ("the server", |flow| flow.server.memory.as_ref()),
        ("this machine", |flow| flow.client.memory.as_ref()),
    ];
    for (end, of) in ends {
        let known = worst(throughput, of);
        if let Some(killed) = killed(systems, throughput, end, known.map(|(_, group)| group)) {
            found.push(killed);
            continue;
        }
        let Some((flow, group)) = known else { continue };
        if group.is_tcp_short() {
            found.retain(|finding| !SEEMS.contains(&finding.cause));
            found.push(short_of_tcp(throughput, end, group));
        } else if let Some(stalled) = stalled(end, flow, group) {
            found.push(stalled);
        }
    }
}

fn higher_limit(end: &str, file: String) -> Vec<String> {
    vec![
        format!(
            "on {end}: a higher limit for the service (systemctl set-property UNIT MemoryMax=) or container (docker update \
             --memory, resources.limits.memory of the pod)"
        ),
        format!("which the kernel has in {file}"),
    ]
}

fn file_of(group: &MemoryGroup) -> String {
    let is_version_1 = group.group.starts_with("/sys/fs/cgroup/memory");
    format!("{}/{}", group.group, if is_version_1 { "memory.limit_in_bytes" } else { "memory.max" })
}

fn limit_of(group: &MemoryGroup) -> String {
    size(group.limit.or(group.tcp_limit).unwrap_or(0) as f64)
}

/// Finds processes of the group that the kernel has killed while the doctor measured: in a transfer, or since
/// the first look.
fn killed(
    systems: &Systems,
    throughput: &Throughput,
    end: &str,
    of_flow: Option<&MemoryGroup>,
) -> Option<Finding> {
    let before = if end == "the server" { systems.there.memory() } else { Default::default() };
    let after = if end == "the server" { systems.memory_at_end.clone() } else { Default::default() };
    let since = crate::memory::between(&before, &after);
    let group = [since.as_ref(), of_flow].into_iter().flatten().max_by_key(|group| group.killed)?;
    let killed = group.killed;
    (killed > 0).then(|| Finding {
        cause: "memory_limit",
        title: format!(
            "The kernel kills processes of {end} for the memory limit of {} of their control group: {killed} during this run.",
            limit_of(group)
        ),
        evidence: [
            Some(format!("{}: oom_kill grew by {killed}", group.group)),
            (group.reached > 0).then(|| format!("the limit was reached {} times", group.reached)),
            throughput.broken.as_ref().map(|why| format!("some of the measurements ended with: {why}")),
        ]
        .into_iter()
        .flatten()
        .collect(),
        gain: "logins and copies that are not cut off".to_owned(),
        change: higher_limit(end, file_of(group)),
        weight: 65.0,
    })
}

/// A server whose control group has so little memory that it explains why connections break off.
pub(super) fn short_at_break(systems: &Systems, why: &str) -> Option<Finding> {
    /// Memory that a server with some connections, shells and copies may need, bytes.
    const NEEDED: u64 = 64 << 20;
    let groups = systems.there.memory();
    let group = groups.values().filter(|group| group.limit.is_some()).min_by_key(|group| group.limit)?;
    let limit = group.limit?;
    (limit < NEEDED).then(|| Finding {
        cause: "memory_limit",
        title: format!(
            "Connections break off: the control group of the server limits its memory to {}.",
            size(limit as f64)
        ),
        evidence: vec![
            format!("some of the measurements ended with: {why}"),
            format!(
                "{}: a limit of {}, reached {} times before",
                group.group,
                size(limit as f64),
                group.reached
            ),
        ],
        gain: "logins and copies that are not cut off".to_owned(),
        change: higher_limit("the server", file_of(group)),
        weight: 60.0,
    })
}

/// Reports that TCP's buffers together take all that they may.
fn short_of_tcp(throughput: &Throughput, end: &str, group: &MemoryGroup) -> Finding {
    let factor = |direction: Direction| {
        Some(throughput.together(direction)? / throughput.flow(direction)?.rate.max(1.0))
    };
    let factor = Direction::BOTH.into_iter().filter_map(factor).fold(EACH_IS_LIMITED, f64::max);
    let of_flow = |direction: Direction| {
        let flow = throughput.flow(direction)?;
        let lost = flow.loss().filter(|lost| *lost > 0.0);
        let lost = lost
            .map_or_else(String::new, |lost| format!("; {} of the segments were sent again", percent(lost)));
        Some(format!("{} of one connection: {}{lost}", direction.name(), rate(flow.rate)))
    };
    let limit = size(group.tcp_limit.unwrap_or(0) as f64);
    Finding {
        cause: "memory_limit",
        title: format!(
            "The control group of {end} limits the buffers of all its TCP connections to {limit} together: packets are dropped \
             there."
        ),
        evidence: Direction::BOTH
            .into_iter()
            .filter_map(of_flow)
            .chain([format!(
                "{}: TCP may use {limit}, and was short of memory {} times during a transfer (failcnt there; \
                 PruneCalled, TCPRcvQDrop in /proc/net/netstat)",
                group.group, group.tcp_short
            )])
            .collect(),
        gain: "as much as the path carries".to_owned(),
        change: higher_limit(end, format!("{}/memory.kmem.tcp.limit_in_bytes", group.group)),
        weight: weight_of_factor(factor) + 0.5,
    }
}

/// Finds times in which all processes of the group waited for memory.
fn stalled(end: &str, flow: &Flow, group: &MemoryGroup) -> Option<Finding> {
    let share = (group.stalled / flow.seconds.max(0.1)).min(0.95);
    (share >= MUCH).then(|| Finding {
        cause: "memory_limit",
        title: format!(
            "The memory limit of {} of the control group of {end} has its processes wait for memory {} of the time.",
            limit_of(group),
            percent(share)
        ),
        evidence: vec![
            format!("{}: memory.pressure (full) grew by {:.1} s in a transfer of {:.1} s", group.group, group.stalled, flow.seconds),
            format!("the limit was reached {} times meanwhile", group.reached),
        ],
        gain: format!("about {:.1} times, with memory enough", 1.0 / (1.0 - share)),
        change: higher_limit(end, file_of(group)),
        weight: weight_of_factor(1.0 / (1.0 - share)) + 0.1,
    })
}
