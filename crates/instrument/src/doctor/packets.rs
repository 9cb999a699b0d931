//! Causes that packets meet on the way: a policer, which drops what exceeds a rate, and small packets.

use lh_metrics::drops;

use super::facts::Facts;
use super::finding::{Finding, weight_of_factor};
use super::judged::{EACH_IS_LIMITED, JudgedDirection};
use super::losses::{LEAST_RESENT, LEAST_SEGMENTS};
use crate::flow::Direction;
use crate::stats::{percent, rate, time};

/// Loss from which dropping is more than the probing of a congestion control, part of the segments.
const POLICED: f64 = 0.005;
/// Data in a packet from which its headers are no cost: IPv6's least MTU of 1280 bytes has 1208.
const SMALL: f64 = 1200.0;
/// Headers of IPv4 and TCP with timestamps, bytes; and data of a packet of Ethernet.
const HEADERS: f64 = 52.0;
const ETHERNET: f64 = 1448.0;

/// Packets overtake others on the path.
pub(super) fn reordering(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let sender = judged.flow.sender.as_ref().filter(|sender| sender.is_reordered())?;
    let (name, end) = (judged.direction.name(), judged.direction.sender());
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

/// Segments are lost without a queue before, again and again, and several connections together are no faster.
pub(super) fn policer(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let sender = judged.flow.sender.as_ref()?;
    let part = judged.flow.loss().filter(|part| *part >= POLICED)?;
    if sender.segments < LEAST_SEGMENTS || sender.resent < LEAST_RESENT {
        return None;
    }
    let together = judged.facts.together(judged.direction)?;
    if judged.factor()? >= EACH_IS_LIMITED || sender.is_reordered() {
        return None;
    }
    let idle = judged.facts.round_trip();
    let loaded = sender.loaded_rtt.filter(|loaded| drops::is_short(*loaded, idle))?;
    let course = judged.flow.drops.as_ref().filter(|course| course.is_policed(idle))?;
    let most = judged.flow.rate.max(together);
    let (name, end) = (judged.direction.name(), judged.direction.sender());
    let file = if judged.direction == Direction::Up { "ssh_config" } else { "lhsshd's sshd_config" };
    let megabits = (most * 8.0 * 0.9 / 1e6).max(0.1);
    Some(Finding {
        cause: "policer",
        title: format!("Something on the path drops what exceeds {} on {name}s (a policer).", rate(most)),
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
            Some(format!("four connections together: {}", rate(together))),
        ]
        .into_iter()
        .flatten()
        .collect(),
        gain: format!("up to {most} without losses", most = rate(most)),
        change: vec![
            format!("stay below it: TcpPacing {megabits:.1}M in {file}, or lhscp --pace {megabits:.1}M"),
            "or have who runs the path allow more, or shape (queue) in place of policing".to_owned(),
        ],
        weight: 0.5,
    })
}

/// Packets carry few data, so that headers take a part of the rate and each byte costs more processor time.
pub(super) fn small_packets(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let sender = judged.flow.sender.as_ref()?;
    let data = sender.segment;
    if sender.segments < LEAST_SEGMENTS || data <= 0.0 || data >= SMALL {
        return None;
    }
    let probed = judged.facts.segments.filter(|segments| !segments.is_black_hole());
    let mtu = probed.map_or_else(|| (data + HEADERS).round() as u64, |segments| segments.path_mtu());
    let share = |data: f64| data / (data + HEADERS);
    let factor = share(ETHERNET) / share(data);
    Some(Finding {
        cause: "small_mtu",
        title: format!("Packets hold {mtu} bytes at most (MTU), in place of the 1500 of Ethernet."),
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
        ],
        weight: weight_of_factor(factor),
    })
}

/// TCP's connection ends before the server: a proxy or an inspecting firewall answers for it.
pub(super) fn answered_on_the_way(facts: &Facts) -> Option<Finding> {
    let (of_tcp, of_ssh) = facts.answered_on_the_way()?;
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
                facts.idle.len(),
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
