//! Small packets that get lost although large ones pass: a limit of packets per second, a rule by length, a
//! class of a shaper.

use super::facts::{PathAtRest, Throughput};
use super::finding::Finding;
use super::jitter;
use super::small_packets::SmallPackets;
use crate::flow::Direction;
use crate::stats::{percent, time};

/// How many times more small packets than large ones must get lost.
const MANY_TIMES: f64 = 3.0;
/// Part of the segments sent again that the server had already from which its answers get lost, not they.
const HAD: f64 = 0.15;

/// Returns whether small packets get lost.
pub(super) fn are_lost(path: &PathAtRest) -> bool {
    path.small_packets.is_some_and(SmallPackets::are_lost)
}

/// The finding; none where transfers in the direction of the lost packets lose about as many.
pub(super) fn judge(path: &PathAtRest, throughput: &Throughput) -> Option<Finding> {
    let small = path.small_packets.filter(|small| small.are_lost())?;
    let are_answers = small.duplicates as f64 >= HAD * small.resent as f64;
    let direction = if are_answers { Direction::Down } else { Direction::Up };
    let large = throughput.significant(direction);
    let of_large = large.and_then(|flow| flow.loss());
    if of_large.is_some_and(|large| small.loss() < MANY_TIMES * large) {
        return None;
    }
    let way = if are_answers { "from the server" } else { "to the server" };
    let mut evidence = vec![format!(
        "while only small messages were sent, this machine sent {} of {} segments again ({}); the server had {} of these already",
        small.resent,
        small.sent,
        percent(small.loss()),
        small.duplicates
    )];
    let direction = direction.name();
    evidence.extend(
        of_large.map(|large| format!("the {direction} sent {} of its segments again", percent(large))),
    );
    evidence.extend(jitter::quantiles(&path.pings).map(|[shortest, usual, long]| {
        format!(
            "the fastest small message was answered after {}, half of them after {}, nine of ten after {}",
            time(shortest),
            time(usual),
            time(long)
        )
    }));
    Some(Finding {
        cause: "small_packet_loss",
        title: match (are_answers, of_large) {
            // How many answers get lost, this machine cannot count.
            (true, _) => format!("Small packets {way} get lost: {} were waited for in vain.", percent(small.loss())),
            (false, Some(_)) => {
                format!("{} of the small packets {way} get lost; large ones pass.", percent(small.loss()))
            }
            (false, None) => format!("{} of the small packets {way} get lost.", percent(small.loss())),
        },
        evidence,
        gain: "logins, keystrokes and the start of each transfer that do not wait for retransmissions".to_owned(),
        change: vec![
            "look for what drops packets by their number or size on the way: a limit of packets per second (a cloud's, a \
             firewall's), a rule with length, limit or statistic (iptables -S, nft list ruleset at both ends and between)"
                .to_owned(),
            "or a shaper that puts small packets into a class of their own (tc -s qdisc and tc -s class show drops)"
                .to_owned(),
        ],
        weight: 50.0,
    })
}
