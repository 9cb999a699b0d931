//! From facts to causes, the one that costs most first.

use super::breaks;
use super::facts::{Facts, Logins, PathAtRest};
use super::finding::Finding;
use super::home;
use super::idle_session;
use super::jitter;
use super::judged::JudgedDirection;
use super::jump;
use super::logins::JudgedLogins;
use super::marks;
use super::master;
use super::memory;
use super::neighbours;
use super::packets;
use super::refusals::JudgedRefusals;
use super::sftp_rates;
use super::small_loss;
use super::throughput;
use super::waits;
use crate::flow::Direction;
use crate::shell::System;

/// All causes, first cause first.
pub(crate) fn diagnose(facts: &Facts) -> Vec<Finding> {
    let refusals = JudgedRefusals::of(facts);
    let no_login = || no_login(&facts.logins, &facts.path).map(|found| refusals.first().unwrap_or(found));
    let swallowed = || swallowed(&facts.path, &facts.logins, &facts.systems.here);
    if let Some(finding) = black_hole(&facts.path, &facts.systems.here).or_else(swallowed).or_else(no_login) {
        // Without a login, what gets lost comes first.
        let small = small_loss::judge(&facts.path, &facts.throughput).filter(|_| finding.cause == "no_login");
        return small.into_iter().chain([finding]).collect();
    }
    let mut found = Vec::new();
    refusals.judge(&mut found);
    let of_small = small_loss::judge(&facts.path, &facts.throughput);
    let stalled = breaks::stalled(&facts.throughput, &facts.systems.here).filter(|_| of_small.is_none());
    found.extend(of_small);
    let is_stalled = stalled.is_some();
    found.extend(stalled);
    if !is_stalled {
        for direction in Direction::BOTH {
            if let Some(flow) = facts.throughput.significant(direction) {
                let judged = JudgedDirection { facts, direction, flow };
                let is_throttled = marks::is_throttled(&facts.throughput.marks, direction);
                let causes = throughput::causes(&judged);
                let is_shaped = causes.iter().any(|found| found.cause == "shaper");
                // Losses that a policer causes are not random, and the path carries more than it lets pass.
                let short_queue = packets::short_queue(&judged).filter(|_| !is_shaped);
                // The queue was found by pacing, which tells more than the course of the losses.
                let policer = packets::policer(&judged).filter(|_| !is_shaped && short_queue.is_none());
                let is_policed = policer.is_some() || short_queue.is_some();
                let causes = causes.into_iter().filter(|found| {
                    !is_policed
                        || !["loss", "congestion_control", "busy_machine", "path"].contains(&found.cause)
                });
                let causes = causes.chain(policer).chain(short_queue);
                let causes = causes.chain(packets::reordering(&judged)).chain(packets::duplicates(&judged));
                // A limit for packets with a mark says nothing about packets without it.
                let causes = causes.filter(|found| !is_throttled || !marks::explains(found.cause));
                let of_jump_host = jump::judge(&judged);
                let causes = causes.filter(|found| of_jump_host.is_none() || !jump::explains(found.cause));
                let of_others = neighbours::judge(&judged);
                let causes = causes
                    .filter(|found| !of_others.as_ref().is_some_and(|others| others.explains(found.cause)));
                found.extend(causes);
                found.extend(of_jump_host);
                found.extend(of_others.map(|others| others.finding));
                found.extend(packets::small_packets(&judged));
            }
        }
        marks::judge(&facts.throughput.marks, &mut found);
        if let Some(master) = &facts.master {
            master::judge(master, &facts.run.host, &mut found);
        }
        waits::disks(&facts.disks, &facts.throughput, &mut found);
        if let Some(file) = facts.sftp.file {
            sftp_rates::judge(file, &facts.throughput, &facts.disks, facts.round_trip(), &mut found);
        }
        let compressed = facts.other_settings.compressed;
        found.extend(compressed.and_then(|with| waits::compression(with, &facts.throughput)));
        memory::judge(&facts.systems, &facts.throughput, &mut found);
        jitter::judge(&facts.path, &facts.throughput, &mut found);
    }
    let is_known = found.iter().any(|found| found.cause == "memory_limit") || refusals.explains_break();
    let broken_off = breaks::broken_off(&facts.throughput, &facts.systems, facts.shell.is_some());
    found.extend(broken_off.filter(|_| !is_known));
    waits::full_disks(&facts.disks, &mut found);
    waits::unwritable(&facts.disks, &mut found);
    JudgedLogins::of(facts).judge(&mut found);
    let (shell, round_trip) = (facts.shell.as_ref(), facts.round_trip());
    if let Some(shell) = shell {
        waits::shell(shell, &facts.logins, round_trip, &mut found);
    }
    waits::sftp(&facts.sftp, shell, round_trip, &mut found);
    found.extend(waits::no_sftp(&facts.sftp));
    found.extend(packets::answered_on_the_way(&facts.path));
    found.extend(home::slow_home(&facts.logins, shell, round_trip));
    found.extend(waits::noise(&facts.systems.there));
    found.extend(facts.idle_session.as_ref().and_then(idle_session::judge));
    // Stable: at equal weight, what was judged first stays first.
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    found
}

/// Returns whether several connections are faster than one, and a flow showed no cause.
pub(super) fn one_is_not_enough(facts: &Facts, direction: Direction) -> bool {
    let Some(flow) = facts.throughput.significant(direction) else { return false };
    let causes = throughput::causes(&JudgedDirection { facts, direction, flow });
    causes.iter().any(|found| ["congestion_control", "busy_machine"].contains(&found.cause))
}

/// Finds packets to the server that the path swallows for their size.
fn black_hole(path: &PathAtRest, here: &System) -> Option<Finding> {
    let segments = path.segments.filter(|segments| segments.is_black_hole())?;
    let mtu = segments.path_mtu();
    // TCP sends smaller segments after it has waited in vain for some seconds.
    let probes = breaks::probes_mtu(here);
    let harm =
        if probes { "logins and copies stand still until TCP sends less" } else { "logins and copies hang" };
    Some(Finding {
        cause: "mtu_black_hole",
        title: format!("The path swallows packets of more than {mtu} bytes (MTU black hole): {harm}."),
        evidence: vec![
            format!(
                "{} bytes of data in a packet arrived, {} did not, though both ends agreed on {}",
                segments.passes,
                segments.passes + 1,
                segments.offered
            ),
            "no ICMP message said so".to_owned(),
        ],
        gain: match probes {
            true => "connections that start at once, and work where the server does not probe".to_owned(),
            false => "connections that work".to_owned(),
        },
        change: breaks::mtu_change(mtu, here),
        weight: 100.0,
    })
}

/// Diagnoses packets that are swallowed on the way from the server alone.
fn swallowed(path: &PathAtRest, logins: &Logins, here: &System) -> Option<Finding> {
    let segments = path.swallowed?;
    let mtu = segments.path_mtu();
    Some(Finding {
        cause: "mtu_black_hole",
        title: format!(
            "The path swallows packets of the server of more than about {mtu} bytes (MTU black hole): logins and downloads \
             hang."
        ),
        evidence: vec![
            format!(
                "about {} bytes of data in a packet of the server arrived here, a few more did not, though both ends agreed \
                 on {}",
                segments.passes, segments.offered
            ),
            match logins.timed.is_empty() {
                true => "logins end with a key exchange of small packets only".to_owned(),
                false => "nothing of a download arrived".to_owned(),
            },
            "packets to the server of that size arrive there".to_owned(),
        ],
        gain: "connections that work".to_owned(),
        change: breaks::mtu_change(mtu, here),
        weight: 100.0,
    })
}

fn no_login(logins: &Logins, path: &PathAtRest) -> Option<Finding> {
    let why = logins.failure.as_ref()?;
    if let Some(socket) = &logins.silent_agent {
        return Some(Finding {
            cause: "agent",
            title: "This machine's authentication agent does not answer: logins wait for it.".to_owned(),
            evidence: vec![format!("{socket} takes connections and does not list its keys"), why.clone()],
            gain: "logins that work".to_owned(),
            change: vec![
                "ssh-add -l: what listens at SSH_AUTH_SOCK or IdentityAgent may wait for a token or for another machine; \
                 start it again"
                    .to_owned(),
                "or IdentityAgent none and IdentityFile with the right key, under Host in ssh_config here".to_owned(),
            ],
            weight: 95.0,
        });
    }
    if why.contains("Too many authentication failures") {
        return Some(Finding {
            cause: "offered_keys",
            title: "The server ended the login: too many keys are offered before the right one.".to_owned(),
            evidence: why.lines().map(str::to_owned).collect(),
            gain: "logins that work".to_owned(),
            change: vec![
                "IdentitiesOnly yes and IdentityFile with the right key, under Host in ssh_config here"
                    .to_owned(),
                "or take keys out of the agent: ssh-add -l, ssh-add -d".to_owned(),
            ],
            weight: 90.0,
        });
    }
    Some(Finding {
        cause: "no_login",
        title: if path.is_proxied {
            "No login was completed through the jump host or proxy command.".to_owned()
        } else {
            "The server greets, but no login was completed.".to_owned()
        },
        evidence: why.lines().map(str::to_owned).collect(),
        gain: "connections that work".to_owned(),
        change: vec!["compare lhssh -v HOST: its last line says what was waited for".to_owned()],
        weight: 90.0,
    })
}
