//! Transfers for which TCP of the sending end has nothing to send: the command's output arrives slowly, the
//! SSH window of this machine is used up, or the command takes its input slowly.

use super::finding::{Finding, weight_of_factor};
use super::judged::{EACH_IS_LIMITED, JudgedDirection, MUCH};
use crate::flow::{Direction, Flow, Turns, USED_UP};
use crate::stats::{percent, rate, size, time};

/// Part of the looks at the server's TCP from which its program is what it waits for.
const MOSTLY: f64 = 0.9;
/// Part of the time for which the SSH process may want a processor: a busy one is itself what is slow.
const IDLE: f64 = 0.5;
/// Part of what an SSH window permits in its round trips from which it may be the limit.
pub(super) const MUCH_OF_WINDOW: f64 = 0.4;

/// Part of the looks from which it is where this end's SSH window, or a rate limit of the server, explains
/// the rate: the looks of a busy server are few, and some meet the moment when data have arrived.
const OFTEN: f64 = 0.7;

/// Returns whether the server's SSH process wants to send less than it could, as TCP and the process show.
/// `least` is the part of the looks that show it.
fn has_nothing_to_send(flow: &Flow, least: f64) -> bool {
    flow.application.starved.is_some_and(|part| part >= least)
        && flow.server.turns.is_some_and(|turns| turns.wanted() < IDLE)
}

/// Returns whether so much arrives in a round trip, seconds, that the SSH window of this end may be the
/// limit.
fn uses_up_window(flow: &Flow, round_trip: f64) -> bool {
    flow.windows.granted.is_some_and(|window| flow.rate >= MUCH_OF_WINDOW * window / round_trip)
}

/// Returns whether the server's SSH process waits for the command's output, not for its processor, the path
/// or the SSH window of this end.
pub(super) fn is_starved(flow: &Flow, round_trip: f64) -> bool {
    has_nothing_to_send(flow, MOSTLY) && !uses_up_window(flow, round_trip)
}

/// Like [`is_starved`], with fewer looks that show it, where the direction is slower than the path.
pub(super) fn is_often_starved(judged: &JudgedDirection<'_>) -> bool {
    let (flow, round_trip) = (judged.flow, judged.facts.round_trip());
    let least = if is_as_fast_as_path(judged) { MOSTLY } else { OFTEN };
    has_nothing_to_send(flow, least) && !uses_up_window(flow, round_trip)
}

/// Finds an SSH window of this end that does not grow with the path.
pub(super) fn own_window(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let (flow, round_trip) = (judged.flow, judged.facts.round_trip());
    let is_each = judged.factor().is_some_and(|factor| factor >= EACH_IS_LIMITED);
    let is_limit = is_each && has_nothing_to_send(flow, OFTEN) && uses_up_window(flow, round_trip);
    let window = flow.windows.granted.filter(|_| judged.direction == Direction::Down && is_limit)?;
    Some(Finding {
        cause: "ssh_window",
        title: format!("This machine's SSH window of {} limits downloads.", size(window)),
        evidence: vec![
            judged.measured(),
            format!(
                "{} in each round trip of {} are {}; in {} of the looks, TCP of the server had nothing to send (app_limited)",
                size(window),
                time(round_trip),
                rate(window / round_trip),
                percent(flow.application.starved.unwrap_or(0.0))
            ),
        ],
        gain: judged.gain(),
        change: vec![
            "take HPNDisabled and HPNBufferSize out of ssh_config here, and -o with them off: windows then follow the path"
                .to_owned(),
            "or copy with lhscp -j 4: each channel has a window of its own".to_owned(),
        ],
        weight: judged.weight(),
    })
}

/// Part of the other direction's rate from which a direction is no slower than the path.
const AS_OTHER: f64 = 0.7;

/// Returns whether nothing tells that a direction is slow: several connections are no faster, and
/// neither is the other direction. A process that is late by a moment again and again has nothing
/// to send at most looks, too.
fn is_as_fast_as_path(judged: &JudgedDirection<'_>) -> bool {
    let other = judged.facts.throughput.best_rate(judged.direction.other());
    judged.factor().is_some_and(|factor| factor < EACH_IS_LIMITED)
        && other.is_some_and(|other| judged.flow.rate >= AS_OTHER * other)
}

/// Finds output of the command that arrives slowly.
pub(super) fn judge(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let flow = judged.flow;
    if is_as_fast_as_path(judged) {
        return None;
    }
    let is_starved = judged.direction == Direction::Down && is_starved(flow, judged.facts.round_trip());
    let part = flow.application.starved.filter(|_| is_starved)?;
    let turns = flow.server.turns?;
    Some(Finding {
        cause: "command_output",
        title: format!(
            "The output of the command reaches the server's SSH process at {} only, which limits downloads.",
            rate(flow.rate)
        ),
        evidence: vec![
            judged.measured(),
            format!("in {} of the looks, TCP of the server had nothing to send (app_limited)", percent(part)),
            format!(
                "the SSH process of the server ran {} of the time, and waited {} of it for its turn",
                percent(turns.ran),
                percent(turns.waited)
            ),
        ],
        gain: judged.gain(),
        change: vec![
            "at the server: look at what stands between SSH and the command: ForceCommand, command= in authorized_keys, a \
             shell that records sessions, a pipe with a limit (pv -L, throttle)"
                .to_owned(),
            "compare there: time head -c 100000000 /dev/zero | cat >/dev/null".to_owned(),
        ],
        weight: weight_of_factor(judged.factor().unwrap_or(1.0)).max(0.5),
    })
}

/// Part of the time up to which TCP has something to send where it waits for the program.
const QUIET: f64 = 0.5;
/// How many times more than is under way the congestion window must permit.
const UNUSED: f64 = 4.0;
/// Part of the looks at the server's TCP up to which its SSH process reads what arrives in time.
const IN_TIME: f64 = 0.2;

/// Says in which part of the looks the server's SSH process had left data in TCP's receive queue.
pub(super) fn left_unread(part: f64) -> String {
    format!("in {} of the looks, much waited in the receive queue of the server's TCP", percent(part))
}

/// The command takes its input slowly: SSH's window is used up although far less than it is under way, and
/// neither end's SSH process is busy or leaves data in its TCP.
pub(super) fn input(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let flow = judged.flow;
    let (sender, part) =
        (judged.sender()?, flow.application.starved.filter(|_| judged.direction == Direction::Up)?);
    let round_trip = judged.facts.round_trip().max(sender.loaded_rtt.unwrap_or(0.0));
    // TCP keeps the mark of its fastest moment: that of the burst which filled the window.
    let under_way = flow.rate * round_trip;
    let is_open = sender.congestion_window.is_some_and(|window| window >= UNUSED * under_way);
    let waits = |share: Option<f64>| share.is_some_and(|share| share >= MUCH);
    let is_held = waits(sender.receive_window) || waits(sender.send_buffer);
    // After a pause, TCP begins with a small congestion window again: what it could have had under way tells
    // nothing then, and how seldom it had anything does.
    let quiet = sender.busy.filter(|busy| *busy <= QUIET);
    if part < MOSTLY && quiet.is_none() && (!is_open || is_held) {
        return None;
    }
    let window = flow.windows.server.filter(|window| flow.rate < MUCH_OF_WINDOW * window / round_trip)?;
    let is_idle = |turns: Option<Turns>| turns.is_none_or(|turns| turns.wanted() < IDLE);
    let is_read = flow.application.unread.is_none_or(|unread| unread <= IN_TIME);
    if flow.windows.closed < USED_UP || !is_idle(flow.server.turns) || !is_idle(flow.client.turns) || !is_read
    {
        return None;
    }
    let idle = match (quiet, sender.congestion_window) {
        _ if part >= MOSTLY => {
            format!("TCP of this machine had nothing to send in {} of them (app_limited)", percent(part))
        }
        (Some(busy), _) => {
            format!("TCP of this machine had something to send in {} of the time only", percent(busy))
        }
        (None, window) => format!(
            "TCP of this machine could have had {} under way, and had {}",
            size(window.unwrap_or(0.0)),
            size(under_way)
        ),
    };
    let process = flow.server.turns.map(|turns| {
        format!(
            "the SSH process of the server ran {} of the time, and waited {} of it for its turn",
            percent(turns.ran),
            percent(turns.waited)
        )
    });
    let queue = flow.application.unread.map(left_unread);
    Some(Finding {
        cause: "command_input",
        title: format!(
            "The command at the server takes its input at {} only, which limits uploads.",
            rate(flow.rate)
        ),
        evidence: [
            Some(judged.measured()),
            Some(format!(
                "the server's SSH window of {} was used up in {} of {} samples, though {idle}",
                size(window),
                percent(flow.windows.closed),
                flow.samples
            )),
            queue,
            process,
        ]
        .into_iter()
        .flatten()
        .collect(),
        gain: judged.gain(),
        change: vec![
            "at the server: look at what stands between SSH and the command: ForceCommand, command= in authorized_keys, a \
             shell that records sessions, a pipe with a limit (pv -L, throttle)"
                .to_owned(),
            "compare there: time head -c 100000000 /dev/zero | COMMAND; it may wait for a disk or a processor of its own"
                .to_owned(),
        ],
        weight: weight_of_factor(judged.factor().unwrap_or(1.0)).max(0.5),
    })
}
