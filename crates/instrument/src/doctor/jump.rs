//! The way to a jump host by itself: which of the two ways limits what goes through it.

use super::budget;
use super::facts::{DirectionThroughput, Facts, JumpHost, PathAtRest, Run, Systems, Throughput};
use super::finding::{Finding, weight_of_factor};
use super::instruments::{Instruments, PLAIN, Place, Transfer, one_flow, prepared_flow};
use super::judged::JudgedDirection;
use super::losses::{LEAST_RESENT, losses_may_limit};
use super::{packets, throughput};
use crate::fault::Fault;
use crate::flow::{Direction, Flow};
use crate::shell::System;
use crate::stats::{lowest, rate, time};
use crate::task::PING_COUNT;

/// How many times faster the jump host alone must be for the way behind it to be the limit.
const BEHIND: f64 = 1.5;
/// How many times faster it may be where the way to it is the limit.
const BEFORE: f64 = 1.25;

/// Transfers to the last jump host, where there is one and it has a shell for the user.
pub(super) fn measure<I: Instruments>(instruments: &mut I, facts: &mut Facts) {
    let Some(name) = instruments.settings().jump_host else { return };
    let seconds = Transfer::judged(Direction::Up, facts.round_trip()).time.as_secs_f64();
    if !budget::begin(instruments, facts, "the jump host", 2.0 * seconds) {
        return;
    }
    match measure_alone(instruments, facts) {
        Ok(measured) => facts.jump_host = Some(JumpHost { name, ..measured }),
        Err(why) => facts.run.missing.push(format!("the way to the jump host {name} by itself: {why}")),
    }
}

fn measure_alone<I: Instruments>(instruments: &mut I, facts: &mut Facts) -> Result<JumpHost, Fault> {
    let [mut first, second] = [(); 2].map(|()| instruments.prepare(Place::JumpHost, &PLAIN, false));
    instruments.login(&mut first)?;
    let pings = instruments.pings(&mut first, PING_COUNT);
    let there: System = instruments.system(&mut first)?;
    let (up, up_through) = both(instruments, facts, Direction::Up, first)?;
    let (down, down_through) = both(instruments, facts, Direction::Down, second)?;
    let (up, down) = (Some(up), Some(down));
    Ok(JumpHost { name: String::new(), pings, there, up, down, up_through, down_through })
}

/// A transfer to the jump host alone, and the rate through it. Once more where they differ: then the slower
/// one alone, and the faster one through it.
fn both<I: Instruments>(
    instruments: &mut I,
    facts: &mut Facts,
    direction: Direction,
    connection: I::Connection,
) -> Result<(Flow, f64), Fault> {
    let transfer = Transfer::judged(direction, facts.round_trip());
    let mut alone = prepared_flow(instruments, connection, &transfer)?;
    let mut through = facts.throughput.rate(direction);
    let seconds = 2.0 * transfer.time.as_secs_f64();
    if alone.rate >= BEHIND * through && budget::begin(instruments, facts, "the jump host, again", seconds) {
        through = through.max(one_flow(instruments, Place::Server, &[], &transfer)?.rate);
        let again = one_flow(instruments, Place::JumpHost, &[], &transfer)?;
        if again.is_significant() && again.rate < alone.rate {
            alone = again;
        }
    }
    Ok((alone, through))
}

/// Returns true for causes that a jump host's own verdict replaces.
pub(super) fn explains(cause: &str) -> bool {
    ["path", "proxy"].contains(&cause)
}

/// Which way limits this direction, where it is clear.
pub(super) fn judge(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let (facts, direction) = (judged.facts, judged.direction);
    let jump_host = facts.jump_host.as_ref()?;
    let alone = jump_host.flow(direction).filter(|flow| flow.is_significant())?;
    let through = jump_host.through(direction);
    let factor = alone.rate / through.max(1.0);
    let to_it = lowest(jump_host.pings.iter().copied())?;
    let (name, host) = (direction.name(), &jump_host.name);
    let evidence = vec![
        format!("{name} of one connection through {host}: {}", rate(through)),
        format!("{name} to {host} alone: {}", rate(alone.rate)),
        format!(
            "round trip: {} to {host}, {} from there",
            time(to_it),
            time((facts.round_trip() - to_it).max(0.0))
        ),
    ];
    // With losses, the rate of each transfer is chance: two of them tell nothing of the ways.
    if alone.resent() >= LEAST_RESENT && losses_may_limit(alone, to_it) {
        return before(judged, jump_host, evidence)
            .filter(|(cause, _)| *cause == "loss")
            .map(|(_, found)| found);
    }
    if factor >= BEHIND {
        return Some(Finding {
            cause: "jump_host",
            title: format!(
                "The way from the jump host {host} to the server limits {name}s: {} through it, {} to it alone.",
                rate(through),
                rate(alone.rate)
            ),
            evidence,
            gain: format!("at most {factor:.1} times: more than that does not pass on the way to {host}"),
            change: vec![
                format!("measure that way by itself: longhaul doctor {}, run on {host}", facts.run.host),
                format!("or look at its TCP while a copy runs, on {host}: ss -tin dst {}", facts.run.host),
                "or copy with lhscp -j 4, or without the jump host where the network permits it".to_owned(),
            ],
            weight: weight_of_factor(factor),
        });
    }
    let found = (factor <= BEFORE).then(|| before(judged, jump_host, evidence))?;
    found.map(|(_, found)| found)
}

/// Finds the cause that limits the way to the jump host. What goes through the jump host by several
/// connections goes to it, too.
fn before(
    judged: &JudgedDirection<'_>,
    jump_host: &JumpHost,
    mut evidence: Vec<String>,
) -> Option<(&'static str, Finding)> {
    let direction = judged.direction;
    let flow = jump_host.flow(direction)?;
    let together = |direction: Direction| {
        let rates =
            [judged.facts.throughput.together(direction), jump_host.flow(direction).map(|flow| flow.rate)];
        rates.into_iter().flatten().reduce(f64::max)
    };
    let of_direction = |direction: Direction| DirectionThroughput {
        flow: jump_host.flow(direction).cloned(),
        together: together(direction),
        lost_together: None,
    };
    let of_way = Facts {
        run: Run { host: jump_host.name.clone(), ..Run::default() },
        path: PathAtRest { pings: jump_host.pings.clone(), ..PathAtRest::default() },
        systems: Systems {
            here: judged.facts.systems.here.clone(),
            there: jump_host.there.clone(),
            ..Systems::default()
        },
        throughput: Throughput {
            up: of_direction(Direction::Up),
            down: of_direction(Direction::Down),
            ..Throughput::default()
        },
        ..Facts::default()
    };
    let of_way = JudgedDirection { facts: &of_way, direction, flow };
    let causes = throughput::causes(&of_way).into_iter().chain(packets::policer(&of_way));
    let cause = causes.max_by(|a, b| a.weight.total_cmp(&b.weight))?;
    // The server of that way is the jump host.
    let name = format!("the jump host {}", jump_host.name);
    let named = |text: String| text.replace("the server", &name).replace("The server", &name);
    evidence.push(format!("on that way: {}", named(cause.title.clone())));
    evidence.extend(cause.evidence.into_iter().map(named));
    let mut change: Vec<String> = cause.change.into_iter().map(named).collect();
    change.push(format!("measure that way by itself: longhaul doctor {}", jump_host.name));
    // A busy processor of the jump host is no property of the path.
    let is_of_host = cause.cause.starts_with("processor");
    let title = if is_of_host {
        named(cause.title.clone())
    } else {
        format!(
            "The way to the jump host {} limits {}s: {} to it alone.",
            jump_host.name,
            direction.name(),
            rate(flow.rate)
        )
    };
    let found =
        Finding { cause: "jump_host", title, evidence, gain: cause.gain, change, weight: cause.weight };
    Some((cause.cause, found))
}
