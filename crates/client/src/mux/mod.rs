//! Several sessions over one connection (`ControlMaster`, `ControlPath`, `ControlPersist`, `-O`): OpenSSH's
//! multiplexing protocol, version 4, as the master ([`Master`]) and as its client ([`MuxClient`]). Both work
//! with OpenSSH's at the other end.
//!
//! A mux client passes its standard descriptors to the master and waits. The master runs the session like its
//! own, so the client's bulk data takes no detour and gets an equal share of each turn of the loop.

mod client;
mod connection;
mod escapes;
mod frames;
mod line;
mod master;
mod mux_session;
mod open;
mod relay;
mod state;
pub mod wire;

pub use client::{ConnectError, Ended, MuxClient, MuxError};
pub use master::{Listen, Master};

/// Cuts bytes of a proxy client into messages, and checks each.
#[cfg(fuzzing)]
pub(crate) fn fuzz_frames(bytes: &[u8]) {
    frames::fuzz(bytes);
}
