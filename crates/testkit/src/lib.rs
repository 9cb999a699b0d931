//! Tools for tests of the protocol crates: virtual time, a virtual link, and scripted peers.
//!
//! This crate opens no socket and never sleeps. A test advances a [`Clock`] manually, so hours of a
//! connection across an ocean take milliseconds, and failures are reproducible. The crate knows the wire
//! format and nothing above it. A [`ScriptedPeer`] sends unencrypted packets, which suffices for violations
//! before the first NEWKEYS. The tests of the crate that has the keys cover later violations.

mod leftovers;
mod link;
mod random;
mod scripted;

pub use leftovers::leftovers;
pub use link::{Chunking, Clock, Link, Pipe, Tap};
pub use random::Seeded;
pub use scripted::{ScriptedPeer, kexinit, plain_packet};
