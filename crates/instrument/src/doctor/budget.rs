//! The time of a run. Steps that only confirm or compare are left out once it is used up, and the page says
//! so.

use super::facts::Facts;
use super::instruments::Instruments;

/// A step begins if it is expected to end within this time of the run, seconds; with more for each second of
/// the round trip, and the time of the logins, up to the most.
const LIMIT: f64 = 45.0;
const FOR_ROUND_TRIP: f64 = 80.0;
const MOST: f64 = 65.0;
/// Time for which a transfer's command may still write after its end, part of the transfer.
const DRAINS: f64 = 1.3;

/// Begins a step of transfers that take this long each, seconds, if there is time for it; else notes what was
/// not measured.
pub(super) fn begin<I: Instruments>(
    instruments: &mut I,
    facts: &mut Facts,
    name: &str,
    seconds: f64,
) -> bool {
    let limit = (LIMIT + FOR_ROUND_TRIP * facts.round_trip() + facts.logins.seconds()).min(MOST);
    begin_before(limit, instruments, facts, name, seconds)
}

/// Like [`begin`], with the most time that any run has: for steps that decide about a difference which is too
/// large to be left open.
pub(super) fn begin_for_large_difference<I: Instruments>(
    instruments: &mut I,
    facts: &mut Facts,
    name: &str,
    seconds: f64,
) -> bool {
    begin_before(MOST, instruments, facts, name, seconds)
}

fn begin_before<I: Instruments>(
    limit: f64,
    instruments: &mut I,
    facts: &mut Facts,
    name: &str,
    seconds: f64,
) -> bool {
    let fits = instruments.elapsed() + DRAINS * seconds <= limit;
    if fits {
        instruments.begin_step(name);
    } else {
        facts.run.missing.push(format!("{name}: the time for it was used up by what came before"));
    }
    fits
}
