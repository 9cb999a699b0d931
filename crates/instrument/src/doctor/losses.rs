//! Lost segments that hold a congestion control back.

use lh_metrics::drops::{self, Drops};
use lh_metrics::loss::{is_bbr, limits_rate};

use super::congestion::choice_of;
use super::facts::{Losses, OtherControl};
use super::finding::{Finding, weight_of_factor};
use super::judged::{EACH_IS_LIMITED, JudgedDirection};
use crate::flow::{Flow, Sender};
use crate::stats::{percent, rate, time};

/// Lower limits of segments sent, and sent again, for a verdict about loss.
pub(super) const LEAST_SEGMENTS: f64 = 300.0;
pub(super) const LEAST_RESENT: f64 = 5.0;

/// Returns whether the share of segments that were lost explains the flow's rate, however few they were.
/// `idle` is the round trip without load, seconds.
pub(super) fn losses_may_limit(flow: &Flow, idle: f64) -> bool {
    let (Some(sender), Some(part)) = (flow.tcp.sender.as_ref(), flow.loss()) else { return false };
    let control = sender.congestion_control.as_deref();
    // What a full queue has dropped is the path's limit, and no property of it that takes rate away. BBR
    // fills a queue where it starts, and is judged by what it loses later.
    let has_queue = |course: &Drops| course.is_of_full_queue(idle);
    if !is_bbr(control) && flow.tcp.drops.as_ref().is_some_and(has_queue) {
        return false;
    }
    if is_of_start(flow) {
        return false;
    }
    let later = flow.tcp.drops.as_ref().filter(|_| is_bbr(control)).map(Drops::later_part);
    let round_trip = sender.loaded_rtt.unwrap_or(idle);
    limits_rate(later.unwrap_or(part), sender.segment, round_trip, flow.rate, control)
}

/// Adds up what several transfers at a time lost, of which nothing counts where segments were overtaken;
/// `None` where a full queue has dropped some of it. `idle` is the round trip without load, seconds.
pub(super) fn of_several(flows: &[Flow], idle: f64) -> Option<Losses> {
    let mut sum = Losses::default();
    for flow in flows {
        let sender = flow.tcp.sender.as_ref()?;
        if flow.tcp.drops.as_ref().is_some_and(|course| course.is_of_full_queue(idle)) {
            return None;
        }
        if !sender.is_reordered() {
            sum.segments += sender.segments;
            sum.resent += sender.lost();
        }
    }
    Some(sum)
}

/// What one connection lost, and what several lost where that is the same property of the path. A slow
/// connection loses so few segments that their number is chance: ten may as well be five or fifteen. What
/// several lose beyond that is of a queue that they overflow.
fn counted(judged: &JudgedDirection<'_>) -> Option<(Losses, Option<Losses>)> {
    let sender = judged.sender()?;
    let one = Losses { segments: sender.segments, resent: sender.lost() };
    let several = judged.facts.throughput.lost_together(judged.direction);
    Some((one, several.filter(|several| several.part() <= most_by_chance(one))))
}

/// Segments lost at a time, on average, from which a burst that returned once at most is that of slow start.
const OVERFLOW: f64 = 10.0;

/// Returns whether all losses were those of the start: slow start has overflowed a queue, also one that is
/// too short to show. What the path loses by chance comes back again and again.
fn is_of_start(flow: &Flow) -> bool {
    let courses = || flow.tcp.drops.iter().chain(&flow.tcp.added_drops);
    let lost = |course: &Drops| course.first + course.later;
    let is_start = |course: &Drops| {
        let is_over = course.first >= LEAST_RESENT && course.later <= 0.0;
        is_over || (course.returned <= 1 && lost(course) >= OVERFLOW * (course.returned + 1) as f64)
    };
    flow.tcp.drops.is_some() && courses().all(is_start) && flow.resent() <= courses().map(lost).sum::<f64>()
}

/// Returns whether segments that get lost, or that others overtake, hold a connection back for a while, so
/// that a short transfer may be much slower than a longer one by chance.
pub(super) fn vary_rates(flow: &Flow, idle: f64) -> bool {
    // TCP takes the first that are overtaken for lost, and learns how many are.
    let is_reordered = flow.tcp.sender.as_ref().is_some_and(Sender::is_reordered);
    is_reordered || (flow.resent() >= LEAST_RESENT && losses_may_limit(flow, idle))
}

pub(super) fn loss(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let sender = judged.sender()?;
    let (one, several) = counted(judged)?;
    let more = several.unwrap_or_default();
    let all = Losses { segments: one.segments + more.segments, resent: one.resent + more.resent };
    let part = all.part();
    if one.segments < LEAST_SEGMENTS || all.resent < LEAST_RESENT {
        return None;
    }
    if !losses_may_limit(judged.flow, judged.facts.round_trip()) || sender.is_reordered() {
        return None;
    }
    let control = sender.congestion_control.as_deref();
    let round_trip = sender.loaded_rtt.unwrap_or_else(|| judged.facts.round_trip());
    // If several connections are no faster, the segments were lost in a full queue: the path is full.
    let tried = judged.other_control();
    let other = match tried {
        Some(OtherControl::Measured { rate, .. }) => rate / judged.flow.rate.max(1.0),
        Some(OtherControl::Overruled { .. }) | None => 1.0,
    };
    let factor = judged.factor().unwrap_or(1.0);
    if factor < EACH_IS_LIMITED && other < EACH_IS_LIMITED {
        return None;
    }
    let name = control.unwrap_or("the congestion control");
    let mut change = selective_acks(judged);
    let is_selective = change.is_empty();
    if let Some(OtherControl::Overruled { name: other }) = tried {
        change.push(choice_of(judged, other));
    } else if !is_bbr(control) {
        change.push(choice_of(judged, "bbr"));
    }
    change.push("copy with lhscp -j 4: several connections share the losses".to_owned());
    let gain = match tried {
        Some(OtherControl::Measured { name, .. }) if other >= EACH_IS_LIMITED => {
            format!("{other:.1} times, measured with {name}; {}", judged.gain())
        }
        _ => judged.gain(),
    };
    let bursts = judged.flow.tcp.drops.as_ref().and_then(bursts);
    let bearable = |lost: f64| sender.segment / round_trip.max(1e-6) * 1.22 / lost.sqrt();
    Some(Finding {
        cause: "loss",
        title: format!(
            "Loss of {} of the segments{} holds {name} back on {}s.",
            percent(part),
            if bursts.is_some() { ", in bursts," } else { "" },
            judged.direction.name()
        ),
        evidence: [
            Some(judged.measured()),
            (!is_selective).then(|| {
                "the ends have not agreed on selective acknowledgements (SACK): each loss costs more"
                    .to_owned()
            }),
            Some(format!(
                "{} sent {:.0} of {:.0} segments again ({})",
                judged.direction.sender(),
                one.resent,
                one.segments,
                percent(one.part())
            )),
            several.map(|several| {
                format!(
                    "with four connections together {:.0} of {:.0} ({})",
                    several.resent,
                    several.segments,
                    percent(several.part())
                )
            }),
            bursts.is_none().then(|| uncertainty(all)).flatten(),
            Some(match bursts {
                Some((times, each)) => format!(
                    "they were lost at {times} times, {each:.0} in a row: {name} slows down once for each, and reaches about {}",
                    rate(bearable(part / each))
                ),
                // What slow start has reached lasts until the losses have taken it away.
                None if bearable(part) < FAR_BELOW * judged.flow.rate => {
                    format!("at that loss {name} reaches about {} in longer transfers", rate(bearable(part)))
                }
                None => format!("at that loss {name} reaches about {}", rate(bearable(part))),
            }),
            bursts.and(judged.flow.tcp.drops.as_ref()).filter(|course| drops::is_short(course.round_trip(), judged.facts.round_trip())).map(
                |_| "no queue shows before them: one that is too short for a connection's bursts may be why, or a link that fails for moments".to_owned(),
            ),
        ]
        .into_iter()
        .flatten()
        .collect(),
        gain,
        change,
        weight: weight_of_factor(factor.max(other)),
    })
}

/// Lost segments from which their share is that of the path within a third, in 19 of 20 paths.
const ENOUGH: f64 = 36.0;

/// How far the number of lost segments is from that of other transfers over the same path, by chance.
fn variation(lost: f64) -> f64 {
    2.0 * lost.sqrt()
}

/// The share of lost segments that the path may have where a transfer lost so many.
fn most_by_chance(lost: Losses) -> f64 {
    (lost.resent + variation(lost.resent)) / lost.segments.max(1.0)
}

/// Says between which values the share of lost segments is where they are few: losses by chance vary by the
/// square root of their number.
fn uncertainty(all: Losses) -> Option<String> {
    let varies = variation(all.resent);
    let part = |resent: f64| percent(resent.max(1.0) / all.segments);
    (all.resent < ENOUGH).then(|| {
        format!(
            "{:.0} lost segments are few: the path loses between {} and {}",
            all.resent,
            part(all.resent - varies),
            part(all.resent + varies)
        )
    })
}

/// Congestion marks (ECN) that hold a congestion control back although no queue is full.
pub(super) fn congestion_marks(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let (flow, sender) = (judged.flow, judged.sender()?);
    // The sender's own count has each mark for a whole round trip; the receiving system's has all its
    // connections.
    let part = flow.packets.marked.unwrap_or(sender.marked / sender.segments.max(1.0));
    if sender.segments < LEAST_SEGMENTS || sender.marked < LEAST_RESENT || part <= 0.0 {
        return None;
    }
    let control = sender.congestion_control.as_deref();
    let round_trip = sender.loaded_rtt.unwrap_or_else(|| judged.facts.round_trip());
    let factor = judged.factor().filter(|factor| *factor >= EACH_IS_LIMITED)?;
    if !limits_rate(part, sender.segment, round_trip, flow.rate, control) {
        return None;
    }
    let (end, name) = (judged.direction.sender(), judged.direction.name());
    let control = control.unwrap_or("the congestion control");
    Some(Finding {
        cause: "ecn",
        title: format!("Congestion marks (ECN) on {} of the packets hold {control} back on {name}s.", percent(part)),
        evidence: vec![
            judged.measured(),
            match flow.packets.marked {
                Some(part) => {
                    format!("{} received {} of its packets with a mark", judged.direction.receiver(), percent(part))
                }
                None => format!("{end} was told of marks for {} of its segments", percent(part)),
            },
            format!(
                "{control} takes a mark for a lost segment, and reaches about {} with so many; the round trip was {} idle and \
                 {} under load",
                rate(sender.segment / round_trip.max(1e-6) * 1.22 / part.sqrt()),
                time(judged.facts.round_trip()),
                time(round_trip)
            ),
        ],
        gain: judged.gain(),
        change: vec![
            "have who runs the path mark later: RED, CoDel or a switch's ECN threshold is set too low for this round trip"
                .to_owned(),
            format!("or without marks, on {end}: sysctl -w net.ipv4.tcp_ecn=0"),
            "or copy with lhscp -j 4: several connections share the marks".to_owned(),
        ],
        weight: weight_of_factor(factor) + 0.1,
    })
}

/// Part of a transfer's rate from which that of its losses is not the one that was measured.
const FAR_BELOW: f64 = 0.6;
/// Segments lost at a time from which losses come in bursts.
const IN_A_ROW: f64 = 4.0;
/// Part of the time with losses up to which their times can be told apart.
const APART: f64 = 0.3;

/// Returns frequency and size of losses that came in bursts.
fn bursts(course: &Drops) -> Option<(usize, f64)> {
    let times = course.returned + 1;
    let each = (course.first + course.later) / times as f64;
    (course.returned > 0 && course.spread < APART && each >= IN_A_ROW).then_some((times, each))
}

/// Advice on selective acknowledgements, if the ends have not agreed on them.
fn selective_acks(judged: &JudgedDirection<'_>) -> Vec<String> {
    if judged.flow.tcp.acknowledges_selectively != Some(false) {
        return Vec::new();
    }
    let ends = [("this machine", &judged.facts.systems.here), ("the server", &judged.facts.systems.there)];
    let off = ends.into_iter().filter(|(_, system)| system.text("tcp_sack") == Some("0"));
    let mut change: Vec<String> = off
        .map(|(end, _)| format!("on {end}: sysctl -w net.ipv4.tcp_sack=1 (and in /etc/sysctl.d to keep it)"))
        .collect();
    if change.is_empty() {
        change.push("have the firewalls on the way let TCP's SACK option pass".to_owned());
    }
    change
}
