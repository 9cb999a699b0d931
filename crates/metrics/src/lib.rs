//! Metrics of a running connection: samples of the kernel's and SSH's values at both ends, at intervals.
//!
//! HPN-SSH's request `stack-metrics@hpnssh.org` fetches the peer's sample ([`answer`], [`read_answer`]); its
//! container format is [`binn`]. Samples of both ends are written to files, one JSON object per line
//! ([`Recorder`]), which `longhaul report` reads ([`read_runs`]). [`Peak`] finds the highest rate that was
//! held for a second. This crate uses no socket and no clock.

pub mod binn;
pub mod copied;
pub mod drops;
mod exchange;
pub mod loss;
mod peak;
mod reader;
mod recorder;
mod sample;
pub mod threads;

pub use exchange::{REQUEST, answer, read_answer};
pub use peak::{Peak, rate};
pub use reader::{BadLine, LineReader, Point, ReadError, Run, read_runs, read_thinned_runs};
pub use recorder::{OpenError, Recorder, RunHeader, Side};
pub use sample::{Counters, MOST_THREADS, SSH_FIELDS, Sample, Source, ThreadTime};
