//! Traffic of other programs that shares the path with a transfer.

use super::finding::{Finding, weight_of_factor};
use super::judged::JudgedDirection;
use crate::flow::{DeviceRate, Direction};
use crate::shell::System;
use crate::stats::{percent, rate, time};

/// Bytes on the wire for each byte of SSH, at most: headers, and acknowledgements of the other direction.
const OVERHEAD: f64 = 1.12;
/// Part of the transfer's rate from which the traffic of others counts.
const MUCH: f64 = 0.3;
/// Round trip under load by which a full queue shows, multiples of the idle one.
const QUEUED: f64 = 1.2;

/// True for causes that the traffic of others seems to be.
pub(super) fn explains(cause: &str) -> bool {
    ["path", "loss", "congestion_control", "policer"].contains(&cause)
}

/// Bytes/s of other programs in this direction, with the device, at one end.
fn of_others<'a>(
    judged: &JudgedDirection<'_>,
    system: &System,
    devices: &'a [DeviceRate],
    is_sender: bool,
) -> Option<(&'a DeviceRate, f64)> {
    let name = system.route_device().filter(|name| *name != "lo")?;
    let device = devices.iter().find(|device| device.name == name)?;
    let all = if is_sender { device.sent } else { device.received };
    let own = judged.flow.moved / device.seconds.max(0.1);
    let others = all - own * (OVERHEAD + judged.flow.loss().unwrap_or(0.0));
    // What the server has sent at the end of a download may be in a queue, and never counted here.
    let least = if is_sender && judged.direction == Direction::Down { 2.0 * MUCH } else { MUCH };
    (others >= least * judged.flow.rate).then_some((device, others))
}

/// Other traffic over the same device, where the path has no room for both: packets are lost, or queue.
pub(super) fn judge(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let (facts, flow, direction) = (judged.facts, judged.flow, judged.direction);
    let lost = flow.loss().unwrap_or(0.0);
    let loaded = judged.sender().and_then(|sender| sender.loaded_rtt);
    let is_queued = loaded.is_some_and(|loaded| loaded > QUEUED * facts.round_trip());
    if facts.is_proxied || (lost == 0.0 && !is_queued) {
        return None;
    }
    let is_up = direction == Direction::Up;
    let here = of_others(judged, &facts.here, &flow.client_devices, is_up);
    let there = || of_others(judged, &facts.there, &flow.server_devices, !is_up);
    let (end, (device, others)) =
        here.map(|found| ("this machine", found)).or_else(|| Some(("the server", there()?)))?;
    let name = direction.name();
    let factor = (flow.rate + others) / flow.rate.max(1.0);
    let full = match loaded {
        Some(loaded) if is_queued => {
            format!(
                "packets queue: a round trip of {}, {} without load",
                time(loaded),
                time(facts.round_trip())
            )
        }
        _ => format!("the path is full: {} of the segments were sent again", percent(lost)),
    };
    Some(Finding {
        cause: "other_traffic",
        title: format!(
            "Other traffic of {end} over {} takes {} of the path on {name}s, beside {} of one connection.",
            device.name,
            rate(others),
            rate(flow.rate)
        ),
        evidence: vec![
            judged.measured(),
            format!(
                "{} carried {} meanwhile, by its counters in /proc/net/dev",
                device.name,
                rate(if is_up == (end == "this machine") { device.sent } else { device.received })
            ),
            full,
        ],
        gain: format!("up to {factor:.1} times, without it"),
        change: vec![
            format!(
                "on {end}: iftop -i {}, nethogs or ss -tnpi show whose it is (a backup, a synchronisation, a stream); stop it, \
                 or limit its rate",
                device.name
            ),
            "or share the line: tc qdisc replace dev DEVICE root cake bandwidth RATE".to_owned(),
        ],
        weight: weight_of_factor(factor),
    })
}
