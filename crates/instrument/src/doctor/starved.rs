//! Downloads for which the server's SSH process has nothing to send: the command's output arrives slowly.

use super::finding::{Finding, weight_of_factor};
use super::judged::JudgedDirection;
use crate::flow::{Direction, Flow};
use crate::stats::{percent, rate};

/// Part of the looks at the server's TCP from which its program is what it waits for.
const MOSTLY: f64 = 0.9;
/// Part of the time for which the SSH process may want a processor: a busy one is itself what is slow.
const IDLE: f64 = 0.5;

/// True where the server's SSH process waits for the command's output, not for its processor or the path.
pub(super) fn is_starved(flow: &Flow) -> bool {
    flow.starved.is_some_and(|part| part >= MOSTLY)
        && flow.server_turns.is_some_and(|turns| turns.wanted() < IDLE)
}

/// The finding.
pub(super) fn judge(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let flow = judged.flow;
    let part = flow.starved.filter(|_| judged.direction == Direction::Down && is_starved(flow))?;
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
