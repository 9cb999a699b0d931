//! The SSH connection protocol (RFC 4254) as a sans-IO state machine.
//!
//! [`Connection`] gets the payloads of messages 80 to 100, and a [`PacketSink`](lh_wire::PacketSink) for the
//! messages that it sends. Events come from [`Connection::poll_event`]. The order of calls: `handle` one
//! message, then `poll_event` until it returns `None`, acting on each event; then the next message.
//!
//! Design decisions:
//! * It owns no data. Received data is passed on at once as a slice of its packet; sent data is written
//!   straight into its packet. A peer can fill only the window that it was granted. That memory belongs to
//!   the owner, who returns the credit with [`Connection::consumed`] when its sink has consumed the bytes.
//! * The owner decides who may open what: opens and requests become events, and the owner answers them.
//! * Closing uses two half-states per channel (what we sent, what the peer sent). A channel's number is free
//!   again only after both CLOSEs have been exchanged and the owner has polled [`Event::Closed`].
//! * A message for a channel that is closed on both sides does not end the connection, unless it carries data
//!   (`late.rs`): peers with several threads send some.
//! * The receive window is a policy object ([`WindowPolicy`], `window.rs`) with 64-bit accounting. It starts
//!   at OpenSSH's default size and grows while the peer waits for the window.

mod channel;
mod config;
mod connection;
mod error;
mod event;
mod first;
mod growth;
mod late;
mod peer;
mod relay;
mod standing_queue;
mod table;
mod totals;
mod window;

pub use config::{ChannelOptions, Config, WindowPolicy};
pub use connection::Connection;
pub use error::{ConnectionError, OpenError};
pub use event::{ChannelId, Event};
pub use relay::HandedOver;
pub use totals::Totals;
