//! What tests of the protocol crates are made of: virtual time, a virtual link, and peers that follow a script.
//!
//! Nothing here opens a socket or sleeps. A test moves a [`Clock`] by hand, so hours of a connection across
//! an ocean take milliseconds, and a failure comes back the same every time. This crate knows the wire format and
//! nothing above it: a [`ScriptedPeer`] speaks unencrypted packets, enough to say wrong things before the first
//! NEWKEYS; lies behind the keys are told by the tests of the crate that has the keys.

mod leftovers;
mod link;
mod random;
mod scripted;

pub use leftovers::leftovers;
pub use link::{Chunking, Clock, Link, Pipe, Tap};
pub use random::Seeded;
pub use scripted::{ScriptedPeer, kexinit, plain_packet};
