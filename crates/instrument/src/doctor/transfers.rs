//! Transfers over connections of their own.

use std::time::Duration;

use crate::fault::Fault;
use crate::flow::{Direction, Flow};
use crate::target::Target;

/// Length of the flow that is judged.
pub(super) const FLOW: Duration = Duration::from_millis(4000);
/// Length of the flows that are compared with it.
pub(super) const SHORT_FLOW: Duration = Duration::from_millis(2000);
/// Round trips of a flow behind whose first part TCP has started, and the longest flow for it.
const START: f64 = 20.0;
const LONGEST_FLOW: Duration = Duration::from_millis(6000);
/// Connections at a time in the comparison.
pub(super) const TOGETHER: usize = 4;

/// Transfers for this time over a connection of its own, with these keywords before all others.
pub(super) fn one_flow(
    target: &Target,
    first: &[(&str, &str)],
    direction: Direction,
    time: Duration,
) -> Result<Flow, Fault> {
    // What a download sends is all zeros: its rate would be that of the compressor.
    let plain = [("Compression", "no")];
    let mut remote = target.connect(&[first, &plain].concat())?;
    let flow = remote.flow(direction, time);
    if flow.failure.is_none() {
        remote.client.close();
    }
    Ok(flow)
}

/// Length of the flows of a comparison over a round trip, seconds: TCP's slow start takes several.
pub(super) fn short_flow(round_trip: f64) -> Duration {
    SHORT_FLOW.max(Duration::from_secs_f64(START * round_trip)).min(LONGEST_FLOW)
}

/// The rates of several connections at a time, added up.
pub(super) fn together(target: &Target, direction: Direction, time: Duration) -> Option<f64> {
    let run = || one_flow(target, &[], direction, time).ok().filter(|flow| flow.rate > 0.0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..TOGETHER).map(|_| scope.spawn(run)).collect();
        let rates: Vec<Option<f64>> =
            threads.into_iter().map(|thread| thread.join().ok().flatten().map(|flow| flow.rate)).collect();
        // Fewer than these would compare another number of connections.
        rates.iter().copied().collect::<Option<Vec<f64>>>().map(|rates| rates.iter().sum())
    })
}
