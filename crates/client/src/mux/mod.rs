//! Several sessions over one connection (`ControlMaster`, `ControlPath`, `ControlPersist`, `-O`): OpenSSH's multiplexing
//! protocol, version 4, as the master ([`Master`]) and as its client ([`MuxClient`]). Either works with OpenSSH's at the other
//! end.
//!
//! A client hands its standard descriptors over and waits; the master runs the session as it would its own, so that a
//! passenger's bulk takes no detour and has the same share of every turn of the loop as anybody's.

mod client;
mod connection;
mod escapes;
mod frames;
mod master;
mod passenger;
mod relay;
pub mod wire;

pub use client::{ConnectError, Ended, MuxClient, MuxError};
pub use master::{Listen, Master};
