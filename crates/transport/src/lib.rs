//! The SSH transport protocol (RFC 4253) as a sans-IO state machine.
//!
//! The caller feeds [`Transport`] bytes and the time, and gets events and bytes back. The order of calls:
//!
//! 1. [`recv_space`](Transport::recv_space), read the socket into it, [`received`](Transport::received)
//!    (or [`received_eof`](Transport::received_eof));
//! 2. [`poll`](Transport::poll) until it returns `None`, acting on each event;
//! 3. pass the packets of the layers above to [`lh_wire::PacketSink`];
//! 4. [`output`](Transport::output), then [`output_slices`](Transport::output_slices) to the socket, then
//!    [`written`](Transport::written);
//! 5. sleep until the socket is ready or [`next_deadline`](Transport::next_deadline);
//!    [`handle_timeout`](Transport::handle_timeout).
//!
//! When `poll` fails, the connection is over. A DISCONNECT with the right reason is already queued: flush
//! once more and close.
//!
//! Design decisions:
//! * Signing and trusting host keys is the caller's task, perhaps in another process. The exchange stops in a
//!   *waiting state* ([`Event::HostKey`], [`Event::SignExchangeHash`]) until the caller brings the answer.
//! * Packets are sealed when output is flushed, not when they are queued, so that many can be sealed at once.
//!   Each carries its own key and index.
//! * The transport starts no threads, but the caller may use some. After [`Transport::set_workers`], bulk
//!   data is cut into [`Job`]s. The owner takes them ([`Transport::next_job`]), runs them on any thread, and
//!   brings them back ([`Transport::finish_job`]). Bytes and events are the same as without workers, in the
//!   same order.
//! * Messages that a peer has not acknowledged can be kept and sent again on another connection
//!   ([`Transport::retain`]). Without that call nothing is kept or counted.
//! * Received payloads are slices of the buffer into which they were read.

mod compress;
mod config;
mod early;
mod epoch;
mod error;
mod event;
mod export;
mod ext_info;
mod freeze;
mod ident;
mod job;
mod kex;
mod machine;
mod negotiate;
mod outgoing;
mod padding;
mod receive_buffer;
mod recv;
mod rekey;
mod resume;
mod retention;
mod seal;
mod send;
mod sink;
mod slab;
mod state;
mod transport;

#[cfg(test)]
mod tests;

pub use compress::CompressionTotals;
pub use config::{
    Algorithms, Config, DEFAULT_MAX_PACKET, HostKey, RekeyLimit, Role, Unencrypted, cpu_has_aes,
};
pub use error::{Fault, FreezeError, ResumeError, TransportError};
pub use event::{AcceptedHostKey, Event, Negotiated};
pub use export::EXPORT_LEN;
pub use job::Job;
pub use transport::Transport;

/// First bytes of a frozen transport, for the fuzz targets.
#[cfg(fuzzing)]
pub const FROZEN_TAG: &[u8] = freeze::TAG;
