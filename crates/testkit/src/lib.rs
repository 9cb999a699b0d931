//! Tools for tests of crates: virtual time, a virtual link, scripted peers, and the programs of real peers.
//!
//! This crate opens no socket and never sleeps. A test advances a [`Clock`] manually, so hours of a
//! connection across an ocean take milliseconds, and failures are reproducible. The crate knows the wire
//! format and nothing above it. A [`ScriptedPeer`] sends unencrypted packets, which suffices for violations
//! before the first NEWKEYS. The tests of the crate that has the keys cover later violations.

pub mod dumps;
mod leftovers;
mod link;
mod peers;
mod random;
mod scripted;

pub use leftovers::leftovers;
pub use link::{Chunking, Clock, Link, Pipe, Tap};
pub use peers::{again_if_closed, find, peers, skip, skip_unavailable};
pub use random::Seeded;
pub use scripted::{ScriptedPeer, kexinit, plain_packet};
