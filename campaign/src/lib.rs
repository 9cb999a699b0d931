//! Campaigns: long and short runs that search for faults that no test covers.
//!
//! `explore` inserts messages at every point of a connection and compares the reactions of servers. `load`
//! measures the cost of many clients, honest and hostile. `faults` kills processes, breaks links and fills
//! disks during copies. `cuts` cuts the paths of sessions that continue over another connection. `nightly`
//! synchronises a tree that changes, and kills two of the runs. `cargo xtask explore`, `load`, `faults`,
//! `cuts` and `nightly` build and run them.

pub mod client;
pub mod cuts;
mod exchange;
pub mod explore;
pub mod faults;
pub mod flood;
pub mod load;
pub mod nightly;
pub mod packets;
pub mod server;
