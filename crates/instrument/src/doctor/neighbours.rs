//! Traffic of other programs that shares the path with a transfer.

use std::ops::RangeInclusive;

use super::finding::{Finding, weight_of_factor};
use super::judged::JudgedDirection;
use crate::command::quoted;
use crate::flow::{DeviceRate, Direction};
use crate::shell::System;
use crate::stats::{percent, rate, time};

/// Bytes on the wire for each byte of SSH, at most: headers, and acknowledgements of the other direction.
const OVERHEAD: f64 = 1.12;
/// Part of the transfer's rate from which the traffic of others counts.
const MUCH: f64 = 0.3;
/// Round trip under load by which a full queue shows, multiples of the idle one.
const QUEUED: f64 = 1.2;

/// Part of a device's speed from which it is full; above the second one, the speed is not a real one.
const FULL: RangeInclusive<f64> = 0.85..=1.2;
/// What one end's device carries of other traffic, as a part of what the other end's does, where it is the
/// same traffic.
const SAME: RangeInclusive<f64> = 0.7..=1.4;
/// Gain that is promised at most: the others may need less, or go on.
const MOST: f64 = 3.0;

/// Traffic of other programs beside a transfer.
pub(super) struct OtherTraffic {
    pub(super) finding: Finding,
    /// It passes both ends, so that it takes the path for certain.
    passes_both_ends: bool,
}

impl OtherTraffic {
    /// Returns true for causes that this traffic seems to be. Losses and policers may have nothing to do with
    /// it.
    pub(super) fn explains(&self, cause: &str) -> bool {
        self.passes_both_ends && ["path", "congestion_control", "busy_machine"].contains(&cause)
    }
}

/// Traffic of other programs in the direction of the transfer, at one end.
struct OfOthers<'a> {
    device: &'a str,
    /// All that the device carried, and the part of others, bytes/s.
    all: f64,
    others: f64,
    speed: Option<f64>,
}

impl OfOthers<'_> {
    fn is_full(&self) -> bool {
        self.speed.is_some_and(|speed| FULL.contains(&(self.all / speed)))
    }
}

fn of_others<'a>(
    judged: &JudgedDirection<'_>,
    system: &'a System,
    devices: &[DeviceRate],
    is_sender: bool,
) -> Option<OfOthers<'a>> {
    let name = system.route_device().filter(|name| *name != "lo")?;
    let device = devices.iter().find(|device| device.name == name)?;
    let all = if is_sender { device.sent } else { device.received };
    let own = judged.flow.moved / device.seconds.max(0.1);
    let others = all - own * (OVERHEAD + judged.flow.loss().unwrap_or(0.0));
    // Data sent at the end of a download may still be in a queue, and are never counted here.
    let least = if is_sender && judged.direction == Direction::Down { 2.0 * MUCH } else { MUCH };
    (others >= least * judged.flow.rate).then_some(OfOthers {
        device: name,
        all,
        others,
        speed: system.route_speed(),
    })
}

/// Other traffic that shares the path, where that has no room for both: packets are lost, or queue. A busy
/// device alone says nothing of the path behind it: either the device is full, or the traffic passes both
/// ends.
pub(super) fn judge(judged: &JudgedDirection<'_>) -> Option<OtherTraffic> {
    let (facts, flow, direction) = (judged.facts, judged.flow, judged.direction);
    let lost = flow.loss().unwrap_or(0.0);
    let loaded = judged.sender().and_then(|sender| sender.loaded_rtt);
    let is_queued = loaded.is_some_and(|loaded| loaded > QUEUED * facts.round_trip());
    if facts.path.is_proxied || (lost == 0.0 && !is_queued) {
        return None;
    }
    let is_up = direction == Direction::Up;
    let here = of_others(judged, &facts.systems.here, &flow.client.devices, is_up);
    let there = of_others(judged, &facts.systems.there, &flow.server.devices, !is_up);
    let (end, seen, where_it_is) = match (here, there) {
        (Some(here), Some(there)) if SAME.contains(&(there.others / here.others)) => {
            let words = format!("{} of the server carried {} of it, too", there.device, rate(there.others));
            ("this machine", here, (true, words))
        }
        (Some(here), _) if here.is_full() => ("this machine", here, (false, String::new())),
        (_, Some(there)) if there.is_full() => ("the server", there, (false, String::new())),
        _ => return None,
    };
    let (passes_both_ends, mut words) = where_it_is;
    if let Some(speed) = seen.speed.filter(|_| !passes_both_ends) {
        words = format!("{} is full: its speed is {}", seen.device, rate(speed));
    }
    let name = direction.name();
    let factor = ((flow.rate + seen.others) / flow.rate.max(1.0)).min(MOST);
    let full = match loaded {
        Some(loaded) if is_queued => {
            format!(
                "packets queue: a round trip of {}, {} without load",
                time(loaded),
                time(facts.round_trip())
            )
        }
        _ => format!("{} of the segments were sent again", percent(lost)),
    };
    let weight = weight_of_factor(factor);
    let finding = Finding {
        cause: "other_traffic",
        title: format!(
            "Other traffic of {end} over {} may leave too little on {name}s: it takes {}, one connection {}.",
            seen.device,
            rate(seen.others),
            rate(flow.rate)
        ),
        evidence: vec![
            judged.measured(),
            format!("{} carried {} meanwhile, by its counters in /proc/net/dev", seen.device, rate(seen.all)),
            words,
            full,
        ],
        gain: format!("maybe {factor:.1} times and more, without it"),
        change: vec![
            format!(
                "on {end}: iftop -i {}, nethogs or ss -tnpi show whose it is (a backup, a synchronisation, a stream); stop it, \
                 or limit its rate",
                quoted(seen.device)
            ),
            "or share the line: tc qdisc replace dev DEVICE root cake bandwidth RATE".to_owned(),
        ],
        // What several connections gain, they take from it.
        weight: if passes_both_ends { weight.max(judged.weight() + 0.1) } else { weight },
    };
    Some(OtherTraffic { finding, passes_both_ends })
}
