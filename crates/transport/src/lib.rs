//! The SSH transport protocol (RFC 4253), without any input or output of its own.
//!
//! [`Transport`] is fed bytes and time, and gives back events and bytes. The order of calls:
//!
//! 1. [`recv_space`](Transport::recv_space), read the socket into it, [`received`](Transport::received)
//!    (or [`received_eof`](Transport::received_eof));
//! 2. [`poll`](Transport::poll) until it returns `None`, acting on each event;
//! 3. whatever the layers above want to say goes in through [`lh_wire::PacketSink`];
//! 4. [`output`](Transport::output), then [`output_slices`](Transport::output_slices) to the socket, then
//!    [`written`](Transport::written);
//! 5. sleep until the socket is ready or [`next_deadline`](Transport::next_deadline);
//!    [`handle_timeout`](Transport::handle_timeout).
//!
//! When `poll` fails the connection is over: a DISCONNECT with the right reason is already queued, flush once
//! more and close.
//!
//! Decisions that shaped this crate:
//! * Who signs and who trusts a key is somebody else's business, maybe another process's: the exchange stops
//!   in a *waiting state* ([`Event::HostKey`], [`Event::SignExchangeHash`]) until an answer is brought.
//! * Packets are sealed when output is flushed, not when they are queued, so that many can be sealed
//!   at once; each carries its own key and index.
//! * There are no threads here, but there may be elsewhere: once [`Transport::set_workers`] says so, bulk is cut into
//!   [`Job`]s that the owner takes ([`Transport::next_job`]), runs anywhere, and brings back
//!   ([`Transport::finish_job`]). Bytes and events are the same as without, in the same order.
//! * Received payloads are slices of the buffer they were read into.

mod compress;
mod config;
mod early;
mod epoch;
mod error;
mod event;
mod ext_info;
mod freeze;
mod ident;
mod job;
mod kex;
mod machine;
mod negotiate;
mod recv;
mod seal;
mod send;
mod transport;

#[cfg(test)]
mod tests;

pub use config::{
    Algorithms, Config, DEFAULT_MAX_PACKET, HostKey, RekeyLimit, Role, Unencrypted, cpu_has_aes,
};
pub use error::{Fault, FreezeError, TransportError};
pub use event::{AcceptedHostKey, Event, Negotiated};
pub use job::Job;
pub use transport::Transport;

/// How a frozen transport begins, for the fuzz targets.
#[cfg(fuzzing)]
pub const FROZEN_TAG: &[u8] = freeze::TAG;
