//! Times in which the path carries nothing.

use super::facts::Throughput;
use super::finding::{Finding, weight_of_factor};
use super::judged::JudgedDirection;
use crate::stats::{percent, rate, time};

/// Pauses for a verdict, in both directions together, and their part of the time of one.
const LEAST: usize = 2;
const PART: f64 = 0.08;

/// Returns whether transfers were interrupted more than once: what is measured for a second or two may have
/// had such a pause for all of its time.
pub(super) fn are_many(throughput: &Throughput) -> bool {
    throughput.flows().map(|flow| flow.pauses.count).sum::<usize>() >= LEAST
}

/// Finds a path that is interrupted again and again: nothing arrives for a while, and segments are sent again
/// after it.
pub(super) fn outages(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let (flow, sender) = (judged.flow, judged.sender()?);
    let pauses = flow.pauses;
    let share = (pauses.seconds / flow.seconds.max(0.1)).min(0.95);
    // A sender that waits for its program, or for the other end, sends nothing again.
    if pauses.count == 0 || share < PART || sender.resent < pauses.count as f64 {
        return None;
    }
    // One of a single transfer may be chance.
    let other = judged.facts.throughput.flow(judged.direction.other()).map_or(0, |flow| flow.pauses.count);
    if pauses.count + other < LEAST {
        return None;
    }
    let times = if pauses.count == 1 { "once".to_owned() } else { format!("{} times", pauses.count) };
    let name = judged.direction.name();
    let factor = 1.0 / (1.0 - share);
    Some(Finding {
        cause: "outages",
        title: format!(
            "The path is interrupted: {name}s stood still {times}, for up to {}.",
            time(pauses.longest)
        ),
        evidence: vec![
            judged.measured(),
            format!("nothing arrived in {} of the time of the {name}", percent(share)),
            format!("{} sent {:.0} segments again", judged.direction.sender(), sender.resent),
        ],
        gain: format!("about {}, the rate between the pauses", rate(flow.rate * factor)),
        change: vec![
            "look for what interrupts the path: a radio link that roams or is disturbed, a route or link that flaps (dmesg, \
             ip -s link, ip monitor route), a failover"
                .to_owned(),
            "or for what stops the other end again and again: a paused virtual machine, cpulimit or SIGSTOP on sshd, swapping \
             (vmstat 1)"
                .to_owned(),
            "copies that are cut off go on with lhscp --retry-for".to_owned(),
        ],
        weight: weight_of_factor(judged.factor().unwrap_or(1.0).max(factor)) + 0.2,
    })
}
