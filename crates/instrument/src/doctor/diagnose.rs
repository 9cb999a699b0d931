//! From facts to causes, the one that costs most first.

use super::facts::Facts;
use super::finding::Finding;
use super::home;
use super::judged::Judged;
use super::packets;
use super::throughput;
use super::waits;
use crate::flow::Direction;

/// All causes, first cause first.
pub(crate) fn diagnose(facts: &Facts) -> Vec<Finding> {
    if let Some(finding) = black_hole(facts).or_else(|| no_login(facts)) {
        return vec![finding];
    }
    let mut found = Vec::new();
    found.extend(stalled(facts));
    if found.is_empty() {
        for direction in Direction::BOTH {
            if let Some(flow) = facts.flow(direction).filter(|flow| flow.is_significant()) {
                let judged = Judged { facts, direction, flow };
                found.extend(throughput::causes(&judged));
                found.extend(packets::policer(&judged));
                found.extend(packets::small_packets(&judged));
            }
        }
        waits::marks(facts, &mut found);
        waits::disks(facts, &mut found);
        waits::compression(facts, &mut found);
    }
    waits::logins(facts, &mut found);
    waits::shell(facts, &mut found);
    found.extend(home::slow_home(facts));
    waits::noise(facts, &mut found);
    // Stable: at equal weight, what was judged first stays first.
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    found
}

fn mtu_change(path_mtu: u64) -> Vec<String> {
    vec![
        format!("ip link set dev DEVICE mtu {path_mtu} (or ip route change … mtu {path_mtu}) at both ends"),
        "or sysctl -w net.ipv4.tcp_mtu_probing=1 at both ends: TCP then finds the size itself".to_owned(),
        "or have the firewalls on the way let ICMP \"fragmentation needed\" (IPv6: packet too big) pass"
            .to_owned(),
    ]
}

fn black_hole(facts: &Facts) -> Option<Finding> {
    let segments = facts.segments.filter(|segments| segments.is_black_hole())?;
    let mtu = segments.path_mtu();
    Some(Finding {
        cause: "mtu_black_hole",
        title: format!(
            "The path swallows packets of more than {mtu} bytes (MTU black hole): logins and copies hang."
        ),
        evidence: vec![
            format!(
                "{} bytes of data in a packet arrived, {} did not, though both ends agreed on {}",
                segments.passes,
                segments.passes + 1,
                segments.offered
            ),
            "no ICMP message said so".to_owned(),
        ],
        gain: "connections that work".to_owned(),
        change: mtu_change(mtu),
        weight: 100.0,
    })
}

fn no_login(facts: &Facts) -> Option<Finding> {
    let why = facts.no_login.as_ref()?;
    Some(Finding {
        cause: "no_login",
        title: "The server greets, but no login was completed.".to_owned(),
        evidence: why.lines().map(str::to_owned).collect(),
        gain: "connections that work".to_owned(),
        change: vec!["compare lhssh -v HOST: its last line says what was waited for".to_owned()],
        weight: 90.0,
    })
}

/// A direction that began and then stood still.
fn stalled(facts: &Facts) -> Option<Finding> {
    let direction = Direction::BOTH.into_iter().find(|direction| {
        facts.flow(*direction).is_some_and(|flow| flow.longest_pause > 2.0 && flow.rate < 20_000.0)
    })?;
    let flow = facts.flow(direction)?;
    Some(Finding {
        cause: "stall",
        title: format!("{}s stand still: small packets arrive, large ones do not.", direction.name()),
        evidence: vec![
            format!("no progress for {:.1} s", flow.longest_pause),
            format!(
                "small messages took {}",
                flow.ping.map_or_else(|| "too long to count".to_owned(), crate::stats::time)
            ),
        ],
        gain: "copies that work".to_owned(),
        change: mtu_change(1280),
        weight: 80.0,
    })
}
