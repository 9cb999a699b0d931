//! Causes at the SSH process of the server itself: something stops it again and again, or traces it.

use super::finding::{Finding, weight_of_factor};
use super::judged::JudgedDirection;
use crate::flow::{EndUsage, Tracer};
use crate::stats::percent;

/// Part of the time from which a process that is stopped counts.
const PART: f64 = 0.1;
/// Weight of a tracer that stops the process for much of the time: what each system call of the server waits
/// for is what to mend first.
const TRACED: f64 = 2.0;
/// Weight of one whose cost was not seen: behind whatever was measured.
const ONLY_TRACED: f64 = 0.1;

/// Part of the looks at which the sending end's TCP had nothing to send, from which queues and losses are of
/// the bursts after a stop, and the path is not full.
const IDLE: f64 = 0.7;

/// Returns whether the path is full although the process is stopped again and again.
fn fills_path(judged: &JudgedDirection<'_>) -> bool {
    judged.fills_path() && judged.flow.application.starved.is_none_or(|part| part < IDLE)
}

/// Part of the time for which the server's process was stopped, where it is much.
pub(super) fn much(server: &EndUsage) -> Option<f64> {
    server.stopped.and_then(|stopped| stopped.part()).filter(|part| *part >= PART)
}

/// Finds a server's SSH process that is stopped for much of the time, by signals or by its tracer. Where the
/// path is full meanwhile, that costs no throughput.
pub(super) fn stopped(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let flow = judged.flow;
    let (part, stopped) = much(&flow.server).filter(|_| !fills_path(judged)).zip(flow.server.stopped)?;
    if let Some(tracer) = &flow.server.tracer {
        return Some(stopped_for(judged, tracer, part));
    }
    let factor = 1.0 / (1.0 - part).max(0.05);
    Some(Finding {
        cause: "process_stopped",
        title: format!(
            "Something stops the SSH process of the server {} of the time, which limits {}s.",
            percent(part),
            judged.direction.name()
        ),
        evidence: vec![
            judged.measured(),
            format!(
                "{} of {} looks at it found it stopped (state T in /proc/PID/stat)",
                stopped.found, stopped.looks
            ),
        ],
        gain: format!("about {factor:.1} times, where it may run"),
        change: vec![
            "at the server: look for what sends SIGSTOP and SIGCONT: cpulimit, a script of the batch system, job control; \
             ps -eo pid,stat,args shows T meanwhile"
                .to_owned(),
        ],
        weight: weight_of_factor(factor) + 0.3,
    })
}

/// Finds a tracer that stops the process for this part of the time.
fn stopped_for(judged: &JudgedDirection<'_>, tracer: &Tracer, part: f64) -> Finding {
    Finding {
        cause: "process_stopped",
        title: format!(
            "The SSH process of the server is traced by {}, which slows {}s down.",
            name(tracer),
            judged.direction.name()
        ),
        evidence: vec![
            judged.measured(),
            is_traced(tracer),
            format!("it was found stopped for the tracer {} of the time", percent(part)),
        ],
        gain: "not known: measure again without it".to_owned(),
        change: vec![format!("on the server: end the tracer (kill {}), and measure again", tracer.process)],
        weight: TRACED,
    }
}

/// Finds a server's SSH process that is traced, and was not found stopped for much of the time: the cost of
/// that is not known. Programs that guard a system trace all processes of some users for good.
pub(super) fn traced(judged: &JudgedDirection<'_>) -> Option<Finding> {
    let flow = judged.flow;
    let tracer =
        flow.server.tracer.as_ref().filter(|_| !fills_path(judged) && much(&flow.server).is_none())?;
    let seldom = flow.server.stopped.map(|stopped| {
        format!("{} of {} looks at it found it stopped for the tracer", stopped.found, stopped.looks)
    });
    Some(Finding {
        cause: "process_stopped",
        title: format!(
            "The SSH process of the server is traced by {}; what that costs {}s was not seen.",
            name(tracer),
            judged.direction.name()
        ),
        evidence: [judged.measured(), is_traced(tracer)].into_iter().chain(seldom).collect(),
        gain: "not known: measure again without it".to_owned(),
        change: vec![format!(
            "on the server: if the tracer is not wanted, end it (kill {}), and measure again",
            tracer.process
        )],
        weight: ONLY_TRACED,
    })
}

fn name(Tracer { process, name }: &Tracer) -> String {
    if name.is_empty() { format!("process {process}") } else { format!("{name} (process {process})") }
}

fn is_traced(tracer: &Tracer) -> String {
    format!("TracerPid of the SSH process is {}: its system calls may wait for that one", tracer.process)
}
