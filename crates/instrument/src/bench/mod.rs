//! The tables of a path: throughput by cipher, set-up by algorithm, latency, files, and other clients beside
//! ours.

mod cells;
mod child;
mod client;
mod compare;
mod conclude;
mod forward;
mod html;
mod job;
mod keeper;
mod keystroke;
mod matrix;
mod measure;
mod offer;
mod prepare;
mod process;
mod ratio;
mod results;
mod row;
mod run;
mod schedule;
mod seal;
mod server_cpu;
mod setup;
mod table;

use std::time::Instant;

use crate::fault::Fault;
use crate::target::Target;
pub use compare::{Comparison, compare};
pub use html::{escape, matrix_page, page};
pub use matrix::{Pair, matrix, read_pairs};
pub use results::{Plan, Results};
pub use table::text;

/// Measures until the time is up. `stop` says that the user wants it to end; what was measured so far is
/// returned.
///
/// # Errors
/// The host cannot be reached or the login is refused: OpenSSH's words.
pub fn measure(
    target: &Target,
    plan: &Plan,
    stop: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&str),
) -> Result<Results, Fault> {
    let begun = Instant::now();
    let time = lh_sys::time::utc_text(std::time::SystemTime::now());
    let mut results = measure::run(target, plan, stop, tell)?;
    results.time = time;
    results.seconds = begun.elapsed().as_secs_f64();
    Ok(results)
}
