//! Campaigns: long and short runs that look for what nobody has written a test for.
//!
//! `explore` inserts messages at every point of a connection and compares what servers make of it; `load` measures what many clients,
//! honest and hostile, cost; `faults` kills processes, breaks links and fills disks under copies. `cargo
//! xtask explore`, `load` and `faults` build and run them.

pub mod client;
mod exchange;
pub mod explore;
pub mod faults;
pub mod load;
pub mod packets;
pub mod server;
