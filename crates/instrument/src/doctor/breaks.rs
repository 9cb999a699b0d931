//! Transfers and connections that end, or stand still, before they are complete.

use super::facts::{CLOSED, Systems, Throughput};
use super::finding::Finding;
use super::memory;
use crate::flow::{Direction, Flow};
use crate::shell::System;
use crate::stats::{size, time};
use crate::task::LATE;

/// Bytes that a direction has moved from which large packets pass.
const MUCH_MOVED: f64 = 1e6;
/// Bytes that a connection has moved from which it broke off in a transfer. A server that closes connections
/// at the command moves none, and what else is measured of it says why.
const TRANSFERS: f64 = 100_000.0;
/// Time without progress, seconds, from which a transfer stands still; and where transfers of both directions
/// did not end in time and nothing moved until their end. Where the rest of the data still arrives, the path
/// is slow, or loses packets.
const STILL: f64 = 2.0;
const STILL_BOTH: f64 = 1.0;
/// Rate up to which a transfer stands still, bytes/s.
const HARDLY: f64 = 20_000.0;

/// Returns whether TCP of this machine sends smaller segments where large ones are not acknowledged.
pub(super) fn probes_mtu(here: &System) -> bool {
    here.text("tcp_mtu_probing").is_some_and(|value| value != "0")
}

/// Returns what lets large packets pass, or keeps them from being sent.
pub(super) fn mtu_change(path_mtu: u64, here: &System) -> Vec<String> {
    let (ends, after) = match probes_mtu(here) {
        true => ("the server, as it is here", ", after some seconds"),
        false => ("both ends", ""),
    };
    vec![
        format!("ip link set dev DEVICE mtu {path_mtu} (or ip route change … mtu {path_mtu}) at both ends"),
        format!("or sysctl -w net.ipv4.tcp_mtu_probing=1 at {ends}: TCP then finds the size itself{after}"),
        "or have the firewalls on the way let ICMP \"fragmentation needed\" (IPv6: packet too big) pass"
            .to_owned(),
    ]
}

/// Connections that the server accepted at first, and that broke off during the measurements.
/// `runs_commands` is false where the first command got no answer.
pub(super) fn broken_off(throughput: &Throughput, systems: &Systems, runs_commands: bool) -> Option<Finding> {
    let Some(why) = throughput.broken.as_ref() else { return broken_transfers(throughput) };
    if let Some(found) = memory::short_at_break(systems, why) {
        return Some(found);
    }
    if !runs_commands {
        return Some(Finding {
            cause: "broken_off",
            title: "The server ends connections when a session begins.".to_owned(),
            evidence: vec![why.clone(), "logins were accepted".to_owned()],
            gain: "sessions and copies that work".to_owned(),
            change: vec![
                "at the server: journalctl -u ssh says why: a ChrootDirectory that does not belong to root or that others may \
                 write, a limit of processes (ulimit -u, pids.max), PAM's session modules"
                    .to_owned(),
            ],
            weight: 55.0,
        });
    }
    Some(Finding {
        cause: "broken_off",
        title: "Connections to the server broke off, or were no longer accepted, during the measurements.".to_owned(),
        evidence: vec![why.clone(), "logins worked before".to_owned()],
        gain: "copies that end".to_owned(),
        change: vec![
            "at the server: journalctl -u ssh and dmesg say what ended: a memory limit (oom), a crash, a restart, a limit of \
             connections or processes (ulimit -u, pids.max)"
                .to_owned(),
            "or a firewall on the way that resets connections which move much".to_owned(),
        ],
        weight: 55.0,
    })
}

/// Logins and commands work, and connections that move much are closed.
fn broken_transfers(throughput: &Throughput) -> Option<Finding> {
    let is_break = |flow: &&Flow| {
        !flow.is_significant()
            && flow.moved >= TRANSFERS
            && flow.failure.as_ref().is_some_and(|why| CLOSED.iter().any(|words| why.contains(words)))
    };
    let broken = |direction| Some((direction, throughput.flow(direction).filter(is_break)?));
    let all: Vec<(Direction, &Flow)> = Direction::BOTH.into_iter().filter_map(broken).collect();
    let (first, flow) = all.first()?;
    let each = |(direction, flow): &(Direction, &Flow)| {
        let why = flow.failure.as_deref().unwrap_or_default();
        format!("the {} ended after {}: {}", direction.name(), size(flow.moved), lh_client::sanitise(why))
    };
    Some(Finding {
        cause: "broken_off",
        title: format!(
            "Connections break off while data are moved: the {} after {}.",
            first.name(),
            size(flow.moved)
        ),
        evidence: all.iter().map(each).chain(["logins and commands worked".to_owned()]).collect(),
        gain: "copies that end".to_owned(),
        change: vec![
            "look for a firewall or an inspecting device on the way that resets connections which move much: the same size \
             each time is its limit"
                .to_owned(),
            "or at the server: journalctl -u ssh and dmesg say whether its process ended (a memory limit, a crash)".to_owned(),
            "copies that are cut off go on with lhscp --retry-for".to_owned(),
        ],
        weight: 55.0,
    })
}

/// A direction that began and then stood still.
pub(super) fn stalled(throughput: &Throughput, here: &System) -> Option<Finding> {
    let is_late = |direction: &Direction| {
        throughput
            .flow(*direction)
            .is_some_and(|flow| flow.failure.as_deref() == Some(LATE) && flow.pauses.endless > STILL_BOTH)
    };
    let stands = |direction: &Direction| {
        throughput.flow(*direction).is_some_and(|flow| flow.pauses.longest > STILL && flow.rate < HARDLY)
    };
    let both = Some(Direction::Up).filter(|_| Direction::BOTH.iter().all(is_late));
    let direction = Direction::BOTH.into_iter().find(stands).or(both)?;
    let flow = throughput.flow(direction)?;
    let name = match direction {
        Direction::Up => "Uploads",
        Direction::Down => "Downloads",
    };
    let has_moved = flow.moved >= MUCH_MOVED;
    let (title, change) = if has_moved {
        (
            format!("{name} stand still after {}: what passes at first is dropped later.", size(flow.moved)),
            vec![
                "look for a firewall or an inspecting device on the way that limits the bytes of a connection or forgets its \
                 state: the same size each time is its limit"
                    .to_owned(),
                "copies that are cut off go on with lhscp --retry-for".to_owned(),
            ],
        )
    } else {
        (format!("{name} stand still: small packets arrive, large ones do not."), mtu_change(1280, here))
    };
    let pings = flow.ping.map_or_else(|| "too long to count".to_owned(), time);
    let mut evidence = vec![if is_late(&direction) {
        format!("no progress in the last {:.1} s of the data, nor after them", flow.pauses.endless)
    } else {
        format!("no progress for {:.1} s", flow.pauses.longest)
    }];
    evidence.push(if has_moved {
        format!("{} went through before", size(flow.moved))
    } else {
        format!("small messages took {pings}")
    });
    Some(Finding {
        cause: "stall",
        title,
        evidence,
        gain: "copies that work".to_owned(),
        change,
        weight: 80.0,
    })
}
