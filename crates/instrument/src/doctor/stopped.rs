//! Causes at the SSH process of the server itself: something stops it again and again, or traces it.

use super::finding::{Finding, weight_of_factor};
use super::judged::JudgedDirection;
use crate::flow::Tracer;
use crate::stats::percent;

/// Part of the time from which a process that is stopped counts.
const PART: f64 = 0.1;
/// Weight of a tracer: what each system call of the server waits for is what to mend first.
const TRACED: f64 = 2.0;

/// The server's SSH process is stopped or traced. Where the path is full meanwhile, that costs no throughput.
pub(super) fn stopped(judged: &JudgedDirection<'_>) -> Option<Finding> {
    if judged.fills_path() {
        return None;
    }
    let flow = judged.flow;
    let part = flow.server_stopped.and_then(|stopped| stopped.part());
    if let Some(tracer) = &flow.server_tracer {
        return Some(traced(judged, tracer, part));
    }
    let (part, stopped) = part.filter(|part| *part >= PART).zip(flow.server_stopped)?;
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

fn traced(judged: &JudgedDirection<'_>, tracer: &Tracer, part: Option<f64>) -> Finding {
    let Tracer { process, name } = tracer;
    let who =
        if name.is_empty() { format!("process {process}") } else { format!("{name} (process {process})") };
    let mut evidence = vec![
        judged.measured(),
        format!("TracerPid of the SSH process is {process}: its system calls wait for that one"),
    ];
    evidence.extend(
        part.map(|part| format!("it was found stopped for the tracer {} of the time", percent(part))),
    );
    Finding {
        cause: "process_stopped",
        title: format!(
            "The SSH process of the server is traced by {who}, which slows {}s down.",
            judged.direction.name()
        ),
        evidence,
        gain: "not known: measure again without it".to_owned(),
        change: vec![format!("on the server: end the tracer (kill {process}), and measure again")],
        weight: TRACED,
    }
}
