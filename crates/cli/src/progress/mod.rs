//! The progress display of `lhscp` and `lhsftp`.
//!
//! Three parts, so that everything but the last can be tested without a terminal or a clock: [`Meter`] turns
//! byte counts and instants into rates, [`line`](Meter::line) lays them out for a width, and [`Display`] owns
//! the terminal. Each file has a meter of its own: rates and peaks never leak from one file into the next.

mod display;
mod meter;
mod text;

pub use display::{Display, JobProgress};
pub use lh_wire::printable;
pub use meter::{Meter, REFRESH, State};
pub use text::{display_width, duration, rate, size};
