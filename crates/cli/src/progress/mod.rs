//! The progress display of `lhscp` and `lhsftp`.
//!
//! Three parts, so that all but the last can be tested without a terminal or a clock: [`Meter`] computes
//! rates from byte counts and instants, [`line`](Meter::line) lays them out for a width, and [`Display`] owns
//! the terminal. Each file has its own meter, so rates and peaks never carry over to the next file.

mod display;
mod meter;
mod text;

pub use display::{Display, JobProgress, LARGE_FILE, count};
pub use lh_wire::printable;
pub use meter::{Meter, REFRESH, State};
pub use text::{display_width, duration, rate, size};
