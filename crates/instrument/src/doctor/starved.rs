//! Downloads for which TCP of the server has nothing to send: the command's output arrives slowly, or the SSH
//! window of this machine is used up.

use super::finding::{Finding, weight_of_factor};
use super::judged::{EACH_IS_LIMITED, JudgedDirection};
use crate::flow::{Direction, Flow};
use crate::stats::{percent, rate, size, time};

/// Part of the looks at the server's TCP from which its program is what it waits for.
const MOSTLY: f64 = 0.9;
/// Part of the time for which the SSH process may want a processor: a busy one is itself what is slow.
const IDLE: f64 = 0.5;
/// Part of what an SSH window permits in its round trips from which it may be the limit.
pub(super) const MUCH_OF_WINDOW: f64 = 0.4;

/// Returns whether the server's SSH process wants to send less than it could, as TCP and the process show.
fn has_nothing_to_send(flow: &Flow) -> bool {
    flow.starved.is_some_and(|part| part >= MOSTLY)
        && flow.server_turns.is_some_and(|turns| turns.wanted() < IDLE)
}

/// Returns whether so much arrives in a round trip, seconds, that the SSH window of this end may be the
/// limit.
fn uses_up_window(flow: &Flow, round_trip: f64) -> bool {
    flow.granted_window.is_some_and(|window| flow.rate >= MUCH_OF_WINDOW * window / round_trip)
}

/// Returns whether the server's SSH process waits for the command's output, not for its processor, the path
/// or the SSH window of this end.
pub(super) fn is_starved(flow: &Flow, round_trip: f64) -> bool {
    has_nothing_to_send(flow) && !uses_up_window(flow, round_trip)
}

/// Finds an SSH window of this end that does not grow with the path.
pub(super) fn own_window(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let (flow, round_trip) = (judged.flow, judged.facts.round_trip());
    let is_each = judged.factor().is_some_and(|factor| factor >= EACH_IS_LIMITED);
    let is_limit = is_each && has_nothing_to_send(flow) && uses_up_window(flow, round_trip);
    let window = flow.granted_window.filter(|_| judged.direction == Direction::Down && is_limit)?;
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
                percent(flow.starved.unwrap_or(0.0))
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

/// Finds output of the command that arrives slowly.
pub(super) fn judge(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let flow = judged.flow;
    let is_starved = judged.direction == Direction::Down && is_starved(flow, judged.facts.round_trip());
    let part = flow.starved.filter(|_| is_starved)?;
    let turns = flow.server_turns?;
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
