//! The shared connection that programs with this configuration use (`ControlMaster`, `ControlPath`): the
//! doctor's own connections tell nothing about it.

use std::time::Duration;

use super::budget;
use super::facts::{Facts, Master, SharedRate};
use super::finding::{Finding, weight_of_factor};
use super::instruments::{Instruments, PLAIN, Place, Transfer, one_flow, prepared_flow};
use crate::fault::Fault;
use crate::flow::Direction;
use crate::stats::rate;

/// Time in which a master answers.
const ANSWERS: Duration = Duration::from_secs(5);
/// How many times faster a new connection must be.
const SLOWER: f64 = 2.0;
/// Rate from which the shared connection is fast, bytes/s: what this process sends through it passes the
/// master as well, and costs processor time that programs without such a detour do not need.
const FAST: f64 = 50e6;

/// Measures both directions through the shared connection, where there is one.
pub(super) fn measure<I: Instruments>(instruments: &mut I, facts: &mut Facts) {
    let Some(socket) = instruments.settings().control_socket else { return };
    // A master that works answers at once; each of the transfers has to fit.
    if !budget::begin(instruments, facts, "the shared connection", 0.0) {
        return;
    }
    let mut connection = instruments.prepare(Place::Master, &[], false);
    match instruments.login_within(&mut connection, ANSWERS) {
        Ok(_) => {}
        Err(failure) if failure.is_late() => {
            facts.master = Some(Master { socket, is_silent: true, rates: Vec::new() });
            return;
        }
        Err(failure) => {
            facts.run.missing.push(format!("the shared connection ({socket}): {}", failure.fault));
            return;
        }
    }
    let mut rates = Vec::new();
    let mut first = Some(connection);
    for direction in Direction::BOTH {
        let connection = first.take().unwrap_or_else(|| instruments.prepare(Place::Master, &[], false));
        match both(instruments, facts, direction, connection) {
            Ok(measured) => rates.extend(measured),
            Err(why) => {
                facts.run.missing.push(format!("{}s over the shared connection: {why}", direction.name()))
            }
        }
    }
    facts.master = Some(Master { socket, is_silent: false, rates });
}

/// Measures the rates of a direction, over the shared connection and a new one; each once more where they
/// differ.
fn both<I: Instruments>(
    instruments: &mut I,
    facts: &mut Facts,
    direction: Direction,
    connection: I::Connection,
) -> Result<Option<SharedRate>, Fault> {
    let Some(alone) = facts.throughput.significant(direction) else { return Ok(None) };
    let mut alone = alone.rate;
    let transfer = Transfer::compared(direction, facts.round_trip(), alone);
    let name = format!("{} over the shared connection", direction.name());
    if !budget::begin(instruments, facts, &name, transfer.time.as_secs_f64()) {
        return Ok(None);
    }
    let mut through = prepared_flow(instruments, connection, &transfer)?.rate;
    let full = Transfer::full(direction, facts.round_trip());
    let seconds = 2.0 * full.time.as_secs_f64();
    if through < FAST
        && alone >= SLOWER * through
        && budget::begin(instruments, facts, "the shared connection, again", seconds)
    {
        alone = alone.min(one_flow(instruments, Place::Server, &PLAIN, &full)?.rate);
        let again = instruments.prepare(Place::Master, &[], false);
        through = through.max(prepared_flow(instruments, again, &full)?.rate);
    }
    Ok(Some(SharedRate { direction, through, alone }))
}

/// Finds a shared connection that is slower than a new one, or does not answer.
///
/// `host` is the host as the user named it.
pub(super) fn judge(master: &Master, host: &str, out: &mut Vec<Finding>) {
    let Master { socket, is_silent, rates } = master;
    let change = vec![
        format!("ssh -O exit {host}: the next login makes a connection by the settings and the path of now"),
        "or ControlPath none for copies (-S none)".to_owned(),
    ];
    if *is_silent {
        out.push(Finding {
            cause: "control_master",
            title: format!(
                "The master of shared connections does not answer ({socket}): programs wait for it."
            ),
            evidence: vec![format!(
                "ControlPath leads to it; it took a connection and said nothing for {} s",
                ANSWERS.as_secs()
            )],
            gain: "logins that work".to_owned(),
            change: vec![
                format!("rm {socket}, and end the process that listens there (ss -xlp)"),
                change[1].clone(),
            ],
            weight: 70.0,
        });
        return;
    }
    for SharedRate { direction, through, alone } in rates {
        let factor = alone / through.max(1.0);
        if factor < SLOWER || *through >= FAST {
            continue;
        }
        let name = direction.name();
        out.push(Finding {
            cause: "control_master",
            title: format!(
                "The shared connection (ControlMaster, {socket}) moves {} on {name}s; a new one moves {}.",
                rate(*through),
                rate(*alone)
            ),
            evidence: vec![
                format!("{name} through the shared connection: {} (the better of two)", rate(*through)),
                format!("{name} over a connection of its own: {} (the worse of two)", rate(*alone)),
                "programs with this ControlPath use the shared one as long as its master runs".to_owned(),
            ],
            gain: format!("{factor:.1} times, measured"),
            change: change.clone(),
            weight: weight_of_factor(factor) + 0.4,
        });
    }
}
