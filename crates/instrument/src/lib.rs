//! Measures an SSH path from one end, with installed programs only: what limits it ([`doctor`]), and tables
//! by algorithm and client ([`mod@bench`]).
//!
//! The connections are made in this process ([`Target`]), so that each measurement sees its socket
//! (`TCP_INFO`), the windows of its channel and its processor time. What the other end counts comes from
//! Longhaul's metrics where the server answers them, and from `/proc` and `ss` through its shell elsewhere.

mod agent;
mod answers;
pub mod bench;
mod command;
mod connects;
mod disk;
pub mod doctor;
mod far_end;
mod fault;
mod flow;
mod held;
mod memory;
mod probe;
mod quota;
mod sftp;
mod shell;
mod stage;
mod stats;
mod target;
mod task;

pub use command::quoted;
pub use fault::{BadList, Fault, NoResults, NoServer};
pub use target::Target;
