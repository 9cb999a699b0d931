//! Causes that packets meet on the way: a policer, which drops what exceeds a rate, and small packets.

use lh_metrics::drops;
use lh_metrics::loss::is_bbr;

use super::congestion::choice_of;
use super::facts::{BelowPolicer, Facts, PathAtRest};
use super::finding::{Finding, weight_of_factor};
use super::judged::{EACH_IS_LIMITED, JudgedDirection};
use super::losses::{LEAST_RESENT, LEAST_SEGMENTS};
use crate::flow::{Direction, Flow, Sender};
use crate::stats::{pacing, percent, rate, time};

/// Loss from which dropping is more than the probing of a congestion control, part of the segments.
const POLICED: f64 = 0.005;
/// Data in a packet from which its headers are no cost: IPv6's least MTU of 1280 bytes has 1208.
const SMALL: f64 = 1200.0;
/// Headers of IPv4 and TCP with timestamps, bytes; and data of a packet of Ethernet.
const HEADERS: f64 = 52.0;
const ETHERNET: f64 = 1448.0;

/// Segments under way up to which their order is nothing that a rate depends on: the other end of a loopback
/// has what it waits for after microseconds.
const FEW_UNDER_WAY: f64 = 10.0;

/// Finds packets that overtake others on the path.
pub(super) fn reordering(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let sender = judged.flow.tcp.sender.as_ref().filter(|sender| sender.is_reordered())?;
    let (name, end) = (judged.direction.name(), judged.direction.sender());
    let round_trip = judged.facts.round_trip().max(sender.loaded_rtt.unwrap_or(0.0));
    if judged.flow.rate * round_trip < FEW_UNDER_WAY * sender.segment {
        return None;
    }
    let factor = judged.factor().unwrap_or(1.0).max(1.0);
    Some(Finding {
        cause: "reordering",
        title: format!("Packets arrive in another order on {name}s, which TCP takes for losses at first."),
        evidence: vec![
            judged.measured(),
            format!("{end} saw {:.0} times that segments were overtaken by later ones", sender.reordered),
            format!(
                "it sent {:.0} of {:.0} segments again; the other end had {:.0} of them already",
                sender.resent, sender.segments, sender.spurious
            ),
        ],
        gain: if factor >= EACH_IS_LIMITED { judged.gain() } else { "fewer segments that are sent twice".to_owned() },
        change: vec![
            "have who runs the path keep each connection on one link: no balancing of each packet by itself (bonding \
             mode balance-rr, per-packet ECMP), but by addresses and ports"
                .to_owned(),
            format!("or on {end}: sysctl -w net.ipv4.tcp_reordering=100 (the default is 3 segments)"),
        ],
        weight: weight_of_factor(factor) + 0.3,
    })
}

/// Part of the segments that must arrive twice for a finding.
const DUPLICATED: f64 = 0.002;

/// Finds packets that the path delivers twice.
pub(super) fn duplicates(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let sender = judged.flow.tcp.sender.as_ref().filter(|sender| sender.segments >= LEAST_SEGMENTS)?;
    let part = sender.duplicated() / sender.segments;
    // Retransmissions in vain are not duplicates that the path made.
    if part < DUPLICATED || sender.duplicated() < LEAST_RESENT || sender.spurious < 2.0 * sender.resent {
        return None;
    }
    // So few segments were retransmitted that nearly all duplicates are the path's.
    let twice = sender.spurious / sender.segments;
    let (name, receiver) = (judged.direction.name(), judged.direction.receiver());
    Some(Finding {
        cause: "duplicates",
        title: format!("{} of the packets arrive twice on {name}s: something on the path copies them.", percent(twice)),
        evidence: vec![
            judged.measured(),
            format!(
                "{receiver} had {:.0} segments of {:.0} already (DSACK), and {} had sent only {:.0} of them again",
                sender.spurious,
                sender.segments,
                judged.direction.sender(),
                sender.resent
            ),
        ],
        gain: format!("{} more of the line for data", percent(twice)),
        change: vec![
            "look for a mirror port that leads back, a loop of bridges, or a bond or virtual switch that floods: tcpdump at \
             both ends shows where each packet becomes two"
                .to_owned(),
        ],
        weight: weight_of_factor(1.0 + twice) + 0.3,
    })
}

/// Returns whether uploads lose segments as a policer drops them, and several connections are faster than
/// one.
pub(super) fn seems_policed(facts: &Facts) -> bool {
    let Some(flow) = facts.throughput.significant(Direction::Up) else { return false };
    let judged = JudgedDirection { facts, direction: Direction::Up, flow };
    judged.factor().is_some_and(|factor| factor >= EACH_IS_LIMITED) && drops_of_policer(&judged).is_some()
}

/// Multiple of the rate that losses by chance would allow, from which they are not by chance.
const BEYOND: f64 = 3.0;
/// Part of the losses that may be left below a policer's rate, and the rate that is reached there at least,
/// part of the limit.
const LEFT: f64 = 0.1;
const REACHED: f64 = 0.8;
/// Times that losses return to a policer of each connection, which the sender tries again and again.
const RETURNED: usize = 2;
/// Part of the segments after the start that are lost to a policer all the time.
const UNCEASING: f64 = 0.1;

/// Segments that an upload below the rate would have lost by chance, from which it tells that none was.
const LEAST_BY_CHANCE: f64 = 6.0;

/// Returns whether an upload was long enough to tell losses by chance from those of a policer. The share of
/// lost segments is uncertain itself: a few of them may be twice as many as usual.
fn is_long_enough(below: &BelowPolicer, sender: &Sender) -> bool {
    let surely_lost = (sender.resent - 2.0 * sender.resent.sqrt()).max(0.0) / sender.segments.max(1.0);
    surely_lost * below.segments >= LEAST_BY_CHANCE
}

/// Returns whether an upload below the rate lost nothing to speak of.
pub(super) fn lost_nothing(below: &BelowPolicer, facts: &Facts) -> bool {
    let part = facts.throughput.flow(Direction::Up).and_then(Flow::loss);
    part.is_some_and(|part| below.lost <= LEFT * part)
}

/// How many times faster an upload must be that is paced at twice the usual rate for a queue to have dropped
/// the bursts of that one.
const PACED: f64 = 1.5;

/// How many times faster an upload was that went above the rate, and whose segments were spread over the
/// round trip. It lost a tenth of that part at most, where a policer drops half of it.
fn paced_gain(judged: &JudgedDirection<'_>) -> Option<f64> {
    let below = judged.facts.other_settings.below_policer.filter(|_| judged.direction == Direction::Up)?;
    let (reached, lost) = below.above?;
    let gain = reached / judged.flow.rate.max(1.0);
    let part = judged.flow.loss()?;
    (gain >= PACED && lost <= LEFT * part).then_some(gain)
}

/// Finds a queue that is too short for the bursts of one connection's window.
pub(super) fn short_queue(judged: &JudgedDirection<'_>) -> Option<Finding> {
    if judged.direction == Direction::Down {
        return likely_short_queue(judged);
    }
    let gain = paced_gain(judged)?;
    drops_of_policer(judged)?;
    let below = judged.facts.other_settings.below_policer?;
    let (reached, lost) = below.above?;
    let limit = pacing(2.0 * judged.flow.rate);
    Some(Finding {
        cause: "short_queue",
        title: format!(
            "A short queue on the path drops the bursts of one connection on {}s.",
            judged.direction.name()
        ),
        evidence: vec![
            judged.measured(),
            format!(
                "{} sent {} of the segments again, without a queue that shows in the round trip",
                judged.direction.sender(),
                percent(judged.flow.loss()?)
            ),
            format!("spread over the round trip (paced), an upload reached {}, and lost {}", rate(reached), percent(lost)),
        ],
        gain: format!("{gain:.1} times, measured with pacing; {}", judged.gain()),
        change: vec![
            format!("TcpPacing {limit} in ssh_config, or lhscp --pace {limit}, and more as long as nothing gets lost"),
            format!("or {}; bbr paces by itself", choice_of(judged, "bbr")),
            "or have who runs the path lengthen the queue of its switch or router: a third of a round trip's data".to_owned(),
        ],
        weight: weight_of_factor(judged.factor().unwrap_or(1.0).max(gain)) + 0.2,
    })
}

/// Segments that the first burst of a flow loses at least in a short queue, and how many times as many as all
/// that follow. Losses by chance are spread over the flow.
const BURST_LOST: f64 = 20.0;
const MORE_THAN_LATER: f64 = 5.0;
/// Part of the best rate of the path up to which a flow is far below it.
const HALF: f64 = 0.5;

/// Returns whether a flow lost its first burst, and nearly nothing later, while it is far below what the path
/// carries: TCP takes the burst's losses for the path's rate. A control that paces its bursts does not.
fn is_short_burst(judged: &JudgedDirection<'_>, course: &drops::Drops) -> bool {
    let control = judged.sender().and_then(|sender| sender.congestion_control.as_deref());
    let is_burst = course.returned < RETURNED
        && course.first >= BURST_LOST
        && course.first >= MORE_THAN_LATER * course.later;
    let best = Direction::BOTH.into_iter().filter_map(|way| judged.facts.throughput.best_rate(way));
    let is_slow = judged.flow.rate < HALF * best.fold(0.0, f64::max);
    is_burst && is_slow && !is_bbr(control) && drops::is_short(course.round_trip(), judged.facts.round_trip())
}

/// Finds downloads that lose segments without a queue: over a path whose uploads are held back by a short
/// queue, or all of them in the first burst. What the server sends cannot be paced from here.
fn likely_short_queue(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let upload = judged.facts.throughput.significant(Direction::Up)?;
    let upload = JudgedDirection { facts: judged.facts, direction: Direction::Up, flow: upload };
    let is_as_upload = short_queue(&upload).is_some();
    let factor = judged.factor().filter(|factor| *factor >= EACH_IS_LIMITED)?;
    let sender = judged.sender().filter(|sender| sender.resent >= LEAST_RESENT && !sender.is_reordered())?;
    let course = judged.flow.tcp.drops.as_ref()?;
    if course.is_of_full_queue(judged.facts.round_trip()) || !(is_as_upload || is_short_burst(judged, course))
    {
        return None;
    }
    Some(Finding {
        cause: "short_queue",
        title: format!(
            "A short queue on the path seems to drop the bursts of one connection on downloads{}.",
            if is_as_upload { ", as on uploads" } else { "" }
        ),
        evidence: vec![
            judged.measured(),
            format!(
                "the server sent {} of the segments again, when the round trip was {} ({} idle): no queue shows in it",
                percent(sender.resent / sender.segments.max(1.0)),
                time(course.round_trip()),
                time(judged.facts.round_trip())
            ),
            if is_as_upload {
                "uploads over this path lose nothing where they are paced; what the server sends cannot be paced from here"
                    .to_owned()
            } else {
                format!(
                    "its first burst lost {:.0} segments, and all that came after it {:.0}; chance would have spread them",
                    course.first, course.later
                )
            },
        ],
        gain: judged.gain(),
        change: vec![
            format!("{}; bbr paces by itself", choice_of(judged, "bbr")),
            "or copy with lhscp -j 4: the bursts of several connections are shorter".to_owned(),
            "or have who runs the path lengthen the queue of its switch or router: a third of a round trip's data".to_owned(),
        ],
        // What was measured comes first.
        weight: weight_of_factor(factor),
    })
}

/// Returns whether each connection has a policer of its own: an upload below the rate loses (nearly) nothing,
/// or the rate is far beyond what so many losses by chance allow and was higher before the first of them.
fn is_of_each_connection(judged: &JudgedDirection<'_>, part: f64) -> bool {
    let Some((sender, course)) = judged.flow.tcp.sender.as_ref().zip(judged.flow.tcp.drops.as_ref()) else {
        return false;
    };
    // Losses of slow start do not return, and a slower upload has none of them. Those that never cease do not
    // return either.
    if course.returned < RETURNED && (course.returned == 0 || course.later_part() < UNCEASING) {
        return false;
    }
    if judged.direction == Direction::Up {
        return judged.facts.other_settings.below_policer.is_some_and(|below| {
            let is_kept = below.lost <= LEFT * part && below.rate >= REACHED * below.limit;
            is_kept && is_long_enough(&below, sender) && paced_gain(judged).is_none()
        });
    }
    let by_chance = sender.segment / judged.facts.round_trip() * 1.22 / part.sqrt();
    course.has_burst() && judged.flow.rate >= BEYOND * by_chance
}

/// The part of the segments that was lost as a policer drops them: again and again, without a queue before.
fn drops_of_policer(judged: &JudgedDirection<'_>) -> Option<f64> {
    let sender = judged.flow.tcp.sender.as_ref().filter(|sender| !sender.is_reordered())?;
    let part = judged.flow.loss().filter(|part| *part >= POLICED)?;
    let idle = judged.facts.round_trip();
    let is_short = sender.loaded_rtt.is_some_and(|loaded| drops::is_short(loaded, idle));
    let is_policed = judged.flow.tcp.drops.as_ref().is_some_and(|course| course.is_policed(idle));
    let is_enough = sender.segments >= LEAST_SEGMENTS && sender.resent >= LEAST_RESENT;
    (is_enough && is_short && is_policed).then_some(part)
}

/// Returns whether segments are lost without a queue before, again and again, and several connections
/// together are no faster; or each connection loses what exceeds a rate of its own.
pub(super) fn is_policed(judged: &JudgedDirection<'_>) -> bool {
    policed_part(judged).is_some()
}

/// The part of the segments that a policer dropped, and how many times faster several connections are.
fn policed_part(judged: &JudgedDirection<'_>) -> Option<(f64, f64)> {
    let (part, factor) = drops_of_policer(judged).zip(judged.factor())?;
    (factor < EACH_IS_LIMITED || is_of_each_connection(judged, part)).then_some((part, factor))
}

/// Finds a policer on the path.
pub(super) fn policer(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let (part, factor) = policed_part(judged)?;
    let sender = judged.flow.tcp.sender.as_ref()?;
    let together = judged.facts.throughput.together(judged.direction)?;
    let is_of_each = factor >= EACH_IS_LIMITED;
    let (idle, loaded) = (judged.facts.round_trip(), sender.loaded_rtt?);
    let course = judged.flow.tcp.drops.as_ref()?;
    // What a bucket lets pass at first is more than its rate.
    let one = if course.has_burst() { course.usual.min(judged.flow.rate) } else { judged.flow.rate };
    let most = if is_of_each { one } else { one.max(together) };
    let below =
        judged.facts.other_settings.below_policer.filter(|_| is_of_each && judged.direction == Direction::Up);
    let (name, end) = (judged.direction.name(), judged.direction.sender());
    let file = if judged.direction == Direction::Up { "ssh_config" } else { "lhsshd's sshd_config" };
    let limit = pacing(0.9 * most);
    Some(Finding {
        cause: "policer",
        title: format!(
            "Something on the path drops what exceeds {}{} on {name}s (a policer).",
            rate(most),
            if is_of_each { " of each connection" } else { "" }
        ),
        evidence: [
            Some(judged.measured()),
            Some(format!(
                "{end} sent {:.0} of {:.0} segments again ({})",
                sender.resent,
                sender.segments,
                percent(part)
            )),
            Some(format!(
                "no queue before they were dropped: round trip {} idle, {} when they were lost, {} in all of the {name}",
                time(idle),
                time(course.round_trip()),
                time(loaded)
            )),
            (course.returned > 0)
                .then(|| format!("losses returned {} times after the start of the {name}", course.returned)),
            course.has_burst().then(|| {
                format!(
                    "before the first loss {} passed for a moment, {} after it: a bucket that is full at first",
                    rate(course.burst),
                    rate(course.usual)
                )
            }),
            below.map(|below| {
                format!(
                    "an {name} with a limit of {} lost {} of its segments",
                    rate(below.limit),
                    percent(below.lost)
                )
            }),
            Some(format!("four connections together: {}", rate(together))),
            judged.harmless_wait(),
        ]
        .into_iter()
        .flatten()
        .collect(),
        gain: if is_of_each { judged.gain() } else { format!("up to {most} without losses", most = rate(most)) },
        change: vec![
            format!("stay below it: TcpPacing {limit} in {file}, or lhscp --pace {limit}"),
            if is_of_each {
                "or copy with lhscp -j 4, which has a limit for each connection; or have who runs the path allow more"
                    .to_owned()
            } else {
                "or have who runs the path allow more, or shape (queue) in place of policing".to_owned()
            },
        ],
        weight: if is_of_each { weight_of_factor(factor) + 0.1 } else { 0.5 },
    })
}

/// Finds packets with few data, so that headers take a part of the rate and each byte costs more processor
/// time.
pub(super) fn small_packets(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let sender = judged.flow.tcp.sender.as_ref()?;
    let data = sender.segment;
    if sender.segments < LEAST_SEGMENTS || data <= 0.0 || data >= SMALL {
        return None;
    }
    // The probe sends to the server: it tells nothing of segments that are small for a limit of this end.
    let probed = judged.facts.path.segments.filter(|segments| !segments.is_black_hole());
    let probed = probed.filter(|segments| (segments.passes as f64) < SMALL);
    let mtu = probed.map_or_else(|| (data + HEADERS).round() as u64, |segments| segments.path_mtu());
    let share = |data: f64| data / (data + HEADERS);
    let factor = share(ETHERNET) / share(data);
    Some(Finding {
        cause: "small_mtu",
        title: format!(
            "Packets of {}s hold {mtu} bytes at most (MTU), in place of the 1500 of Ethernet.",
            judged.direction.name()
        ),
        evidence: vec![
            judged.measured(),
            format!("{data:.0} bytes of data in each packet: {} are headers", percent(1.0 - share(data))),
        ],
        gain: format!(
            "{factor:.2} times where the path is full, and {:.1} times fewer packets for both processors",
            ETHERNET / data
        ),
        change: vec![
            "ip link set dev DEVICE mtu 1500 where the small one is set: ip -s link, ip route get HOST and \
             tracepath HOST show it at both ends"
                .to_owned(),
            "in a tunnel: as much as its outer path carries (1420 for WireGuard over Ethernet)".to_owned(),
            "or a firewall clamps TCP's segments (iptables TCPMSS, nft maxseg) where no MTU is that small"
                .to_owned(),
        ],
        weight: weight_of_factor(factor),
    })
}

/// Finds a TCP connection that ends before the server: a proxy or an inspecting firewall answers for it.
pub(super) fn answered_on_the_way(path: &PathAtRest) -> Option<Finding> {
    let (of_tcp, of_ssh) = path.answered_on_the_way()?;
    Some(Finding {
        cause: "middlebox",
        title: format!(
            "Something {} from here answers TCP in the server's place; SSH is answered after {}.",
            time(of_tcp),
            time(of_ssh)
        ),
        evidence: vec![
            format!("TCP's handshake took {}", time(of_tcp)),
            format!(
                "the fastest of {} small SSH messages was answered after {}",
                path.pings.len(),
                time(of_ssh)
            ),
            "losses, windows and buffers of uploads are those of the way to it, not to the server".to_owned(),
        ],
        gain: "what it costs shows a measurement without it, from another network or port".to_owned(),
        change: vec![
            "ask who runs the firewall, VPN or WAN accelerator on the path to let port 22 pass without a proxy".to_owned(),
            "a server that is stopped for most of the time looks alike: its load is in uptime and top there".to_owned(),
        ],
        weight: 1.0,
    })
}
