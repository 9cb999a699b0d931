//! Figures about a running connection: what both ends of it look like to their kernels and to SSH, at intervals.
//!
//! HPN-SSH's request `stack-metrics@hpnssh.org` brings the other end's figures ([`answer`], [`read_answer`]); its container format
//! is [`binn`]. Both ends' go to files, a JSON object a line ([`Recorder`]), which `longhaul report` reads again ([`read_runs`]).
//! [`Peak`] finds the highest rate that was held for a second. Nothing here has a socket or a clock.

pub mod binn;
pub mod copied;
mod exchange;
pub mod loss;
mod peak;
mod reader;
mod recorder;
mod sample;

pub use exchange::{REQUEST, answer, read_answer};
pub use peak::{Peak, rate};
pub use reader::{Point, ReadError, Run, read_runs};
pub use recorder::{About, Recorder, Side};
pub use sample::{SSH_FIELDS, Sample};
