//! Campaigns: long and short runs that look for what nobody has written a test for.
//!
//! `explore` inserts messages at every point of a connection and compares what servers make of it; `load` measures what many clients,
//! honest and hostile, cost. `cargo xtask explore` and `cargo xtask load` build and run both.

pub mod client;
pub mod explore;
pub mod load;
pub mod packets;
pub mod server;
