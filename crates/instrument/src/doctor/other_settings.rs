//! Uploads with another setting, each where the one in use may be the limit.

use lh_metrics::loss::is_bbr;

use super::budget;
use super::buffers::full_window;
use super::congestion;
use super::diagnose::one_is_not_enough;
use super::facts::{BelowPolicer, Facts, FilledQueue, OtherCipher, OtherControl};
use super::instruments::{Instruments, Place, Transfer, one_flow};
use super::judged::JudgedDirection;
use super::losses::losses_may_limit;
use super::packets::{lost_nothing, seems_policed};
use super::throughput::is_long_queue;
use crate::flow::{Direction, Flow, MANY_REKEYS};
use crate::stats::pacing;

/// Uploads with other settings, where those in use may be the limit.
pub(super) fn measure<I: Instruments>(instruments: &mut I, facts: &mut Facts) {
    let full = Transfer::full(Direction::Up, facts.round_trip());
    let time = full.time.as_secs_f64();
    if instruments.settings().compresses && budget::begin(instruments, facts, "compression", 2.0 * time) {
        let with = [("Compression", "yes")];
        let rates = [
            one_flow(instruments, Place::Server, &with, &full),
            one_flow(instruments, Place::Server, &with, &full),
        ];
        // The better one, so that a moment's load is no fault of it.
        facts.other_settings.compressed =
            rates.into_iter().flatten().filter(Flow::is_significant).map(|flow| flow.rate).reduce(f64::max);
    }
    let rekeys_often = facts.throughput.up.flow.as_ref().is_some_and(|flow| flow.rekeys.count >= MANY_REKEYS);
    if rekeys_often && budget::begin(instruments, facts, "fewer key exchanges", time) {
        let other = one_flow(instruments, Place::Server, &[("RekeyLimit", "default none")], &full);
        // A run that exchanged keys as often shows nothing: the server's own limit applies.
        let is_fewer = |flow: &Flow| flow.is_significant() && flow.rekeys.count < MANY_REKEYS;
        facts.other_settings.without_rekeys = other.ok().filter(is_fewer).map(|flow| flow.rate);
    }
    below_policer(instruments, facts);
    other_control(instruments, facts);
    fill_queue(instruments, facts);
}

/// An upload with a congestion control that fills the queue of the path, where BBR keeps it short, or CUBIC
/// has filled a part of a long one: copies of other programs and machines fill it.
fn fill_queue<I: Instruments>(instruments: &mut I, facts: &mut Facts) {
    // CUBIC's slow start ends before the queue is full (HyStart), and that of Reno where it drops segments.
    const FILLS: &str = "reno";
    let control = |flow: &Flow| flow.tcp.sender.as_ref().and_then(|sender| sender.congestion_control.clone());
    let uses = facts.throughput.significant(Direction::Up).and_then(control);
    if is_bbr(facts.throughput.significant(Direction::Down).and_then(control).as_deref()) {
        facts.run.missing.push(
            "a long queue in front of downloads: the server's BBR keeps a queue short that other programs and \
             machines fill, and only the server can use another congestion control"
                .to_owned(),
        );
    }
    let is_part = uses.as_deref() == Some("cubic")
        && facts
            .throughput
            .significant(Direction::Up)
            .is_some_and(|flow| has_part_of_queue(flow, facts.round_trip()));
    if facts.path.is_proxied || !(is_part || is_bbr(uses.as_deref())) {
        return;
    }
    let transfer = Transfer::full(Direction::Up, facts.round_trip());
    if !budget::begin(instruments, facts, "an upload that fills the queue", transfer.time.as_secs_f64()) {
        return;
    }
    let flow = one_flow(instruments, Place::Server, &[("TcpCongestion", FILLS)], &transfer);
    let flow = flow.ok().filter(Flow::is_significant).filter(|flow| control(flow).as_deref() == Some(FILLS));
    // The round trip where segments were dropped first is that of a full queue.
    let at_drops = flow.as_ref().and_then(|flow| flow.tcp.drops.as_ref()).map(|drops| drops.first_round_trip);
    let usual = flow.as_ref().and_then(|flow| flow.tcp.sender.as_ref()?.loaded_rtt);
    facts.other_settings.filled_queue = [at_drops, usual]
        .into_iter()
        .flatten()
        .reduce(f64::max)
        .map(|round_trip| FilledQueue { control: FILLS, round_trip });
}

/// Returns whether a flow has filled a long queue in part: packets wait in it, and none was dropped.
fn has_part_of_queue(flow: &Flow, idle: f64) -> bool {
    let waits = flow
        .tcp
        .sender
        .as_ref()
        .and_then(|sender| sender.loaded_rtt)
        .is_some_and(|loaded| is_long_queue(loaded - idle, idle));
    waits && flow.resent() <= 0.0
}

/// An upload with another congestion control, where the one in use may be the limit.
fn other_control<I: Instruments>(instruments: &mut I, facts: &mut Facts) {
    // Segments that a full queue has dropped explain no rate.
    let is_lossy = facts.throughput.up.flow.as_ref().is_some_and(|flow| {
        flow.loss().is_some_and(|loss| loss > 0.0005) && losses_may_limit(flow, facts.round_trip())
    });
    let uses = facts
        .throughput
        .up
        .flow
        .as_ref()
        .and_then(|flow| flow.tcp.sender.as_ref()?.congestion_control.clone());
    let name = if is_lossy {
        let has_bbr =
            facts.systems.here.may_choose_congestion_control("bbr") && uses.as_deref() != Some("bbr");
        has_bbr.then_some("bbr")
    } else {
        congestion::alternative(facts).filter(|_| one_is_not_enough(facts, Direction::Up))
    };
    let Some(name) = name else { return };
    let time = Transfer::judged(Direction::Up, facts.round_trip()).time;
    if !budget::begin(instruments, facts, "another congestion control", time.as_secs_f64()) {
        return;
    }
    let alone = facts.throughput.rate(Direction::Up);
    let transfer = Transfer::compared(Direction::Up, facts.round_trip(), alone);
    let transfer = Transfer { time, ..transfer };
    let other = one_flow(instruments, Place::Server, &[("TcpCongestion", name)], &transfer);
    facts.other_settings.congestion_control = other.ok().filter(Flow::is_significant).and_then(|flow| {
        let full_window = full_window(&JudgedDirection { facts, direction: Direction::Up, flow: &flow });
        let used = flow.tcp.sender?.congestion_control?;
        let name = name.to_owned();
        Some(match used == name {
            true => OtherControl::Measured { name, rate: flow.rate, full_window },
            false => OtherControl::Overruled { name },
        })
    });
}

/// An upload at four fifths of the rate that passes, where what exceeds a rate seems to be dropped for each
/// connection: a policer then drops nothing, and a path that loses packets by chance loses as many. One at
/// twice the rate follows where nothing was lost: a policer drops half of it, and a short queue, which
/// overflows in the bursts of a window, nothing.
fn below_policer<I: Instruments>(instruments: &mut I, facts: &mut Facts) {
    const PART: f64 = 0.8;
    const TWICE: f64 = 2.0;
    let rate = facts.throughput.rate(Direction::Up);
    if !seems_policed(facts) {
        return;
    }
    let Some(below) = paced(instruments, facts, "upload below the rate", PART * rate) else { return };
    facts.other_settings.below_policer = Some(below);
    if lost_nothing(&below, facts) {
        let above = paced(instruments, facts, "upload at twice the rate", TWICE * rate);
        let above = above.map(|above| (above.rate, above.lost));
        facts.other_settings.below_policer = Some(BelowPolicer { above, ..below });
    }
}

/// Runs an upload with a limit, bytes/s.
fn paced<I: Instruments>(
    instruments: &mut I,
    facts: &mut Facts,
    name: &str,
    limit: f64,
) -> Option<BelowPolicer> {
    let transfer = Transfer::full(Direction::Up, facts.round_trip());
    if !budget::begin(instruments, facts, name, transfer.time.as_secs_f64()) {
        return None;
    }
    let flow = one_flow(instruments, Place::Server, &[("TcpPacing", &pacing(limit))], &transfer).ok()?;
    let segments = flow.tcp.sender.as_ref().filter(|_| flow.is_significant())?.segments;
    Some(BelowPolicer { limit, rate: flow.rate, lost: flow.loss()?, segments, above: None })
}

/// An upload with the cipher that needs least of a processor, where one may be the limit.
pub(super) fn cipher<I: Instruments>(instruments: &mut I, facts: &mut Facts) {
    const FASTEST: &str = "aes128-gcm@openssh.com";
    let used = |flow: &Flow| flow.client.cpu.unwrap_or(0.0).max(flow.server.cpu.unwrap_or(0.0));
    let full = Transfer::full(Direction::Up, facts.round_trip());
    let is_busy =
        facts.throughput.up.flow.as_ref().map_or(0.0, used) > 0.8 && facts.negotiated.cipher != FASTEST;
    if is_busy && budget::begin(instruments, facts, "another cipher", full.time.as_secs_f64()) {
        let name = FASTEST.to_owned();
        facts.other_settings.cipher =
            match one_flow(instruments, Place::Server, &[("Ciphers", FASTEST)], &full) {
                Ok(flow) => flow.is_significant().then_some(OtherCipher::Measured { name, rate: flow.rate }),
                Err(fault) => {
                    fault.to_string().contains("no matching cipher").then_some(OtherCipher::Refused { name })
                }
            };
    }
}
