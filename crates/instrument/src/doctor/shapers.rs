//! A traffic shaper of the sending end's own device (tc(8)).

use super::finding::Finding;
use super::judged::JudgedDirection;
use crate::command::quoted;
use crate::flow::Shaper;
use crate::stats::rate;

/// Data that pass, as parts of the shaper's rate, where it is the limit: it counts headers as well, and a
/// bucket that is full at first lets more pass for a while.
const NEAR: std::ops::RangeInclusive<f64> = 0.85..=1.1;
/// Part of a shaper's rate that is left for data behind headers: 1448 bytes of a frame of 1514.
const DATA: f64 = 0.956;
/// Like a rate limit that was asked for, it is what to look at first.
const WEIGHT: f64 = 3.0;

/// A shaper on the route of the sending end has held packets back, and about its rate has passed.
pub(super) fn judge(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let device = judged.facts.systems.sending(judged.direction).route_device()?;
    // Classes of some kernels count nothing themselves, and their queueing discipline does.
    let off = |shaper: &&Shaper| {
        let part = part(judged, shaper)?;
        let is_limit = NEAR.contains(&part) && (shaper.delayed > 0.0 || shaper.is_class);
        (shaper.device == device && is_limit).then(|| (part - DATA).abs())
    };
    let limits = judged.flow.packets.shapers.iter().filter_map(|shaper| Some((off(&shaper)?, shaper)));
    let (_, shaper) = limits.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
    let (end, name) = (judged.direction.sender(), judged.direction.name());
    let each = if shaper.is_of_each { " of each connection" } else { "" };
    let word = if shaper.is_class { "class" } else { "qdisc" };
    let Shaper { kind, handle, .. } = shaper;
    let together = judged.facts.throughput.together(judged.direction);
    Some(Finding {
        cause: "shaper",
        title: format!(
            "A traffic shaper of {end} ({kind} on {}) holds {name}s{each} to {}.",
            shaper.device,
            rate(shaper.rate)
        ),
        evidence: [
            Some(judged.measured()),
            together.map(|together| format!("four connections together: {}", rate(together))),
            Some(format!(
                "tc -s {word} show dev {}: {kind} {handle} permits {}{each}; meanwhile it held {:.0} packets back and dropped \
                 {:.0}",
                shaper.device,
                rate(shaper.rate),
                shaper.delayed,
                shaper.dropped
            )),
        ]
        .into_iter()
        .flatten()
        .collect(),
        gain: "as much as the path carries".to_owned(),
        change: vec![
            format!("on {end}: {}", command(shaper)),
            "or have who sets it do so: a boot script, systemd-networkd, NetworkManager, a container's or virtual machine's \
             limit"
                .to_owned(),
        ],
        weight: WEIGHT,
    })
}

/// Returns whether a shaper has dropped packets: it explains losses then.
pub(super) fn has_dropped(judged: &JudgedDirection<'_>) -> bool {
    judged.flow.packets.shapers.iter().any(|shaper| shaper.dropped > 0.0)
}

/// Part of the shaper's rate that passed.
fn part(judged: &JudgedDirection<'_>, shaper: &Shaper) -> Option<f64> {
    let passed = if shaper.is_of_each {
        Some(judged.flow.rate)
    } else {
        judged.facts.throughput.best_rate(judged.direction)
    };
    Some(passed? / shaper.rate)
}

/// The command that takes the shaper away, or gives it another rate.
fn command(shaper: &Shaper) -> String {
    let (device, kind) = (quoted(&shaper.device), &shaper.kind);
    if shaper.is_class {
        let limit = if kind == "hfsc" { "ul rate RATE" } else { "rate RATE ceil RATE" };
        return format!("tc class change dev {device} classid {} {kind} {limit}", quoted(&shaper.handle));
    }
    if shaper.is_root {
        return format!("tc qdisc del dev {device} root takes it away (the system's own takes its place)");
    }
    format!("tc qdisc del dev {device} handle {} takes it away", quoted(&shaper.handle))
}
