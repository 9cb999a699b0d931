//! The SSH connection protocol (RFC 4254), without any input or output of its own.
//!
//! [`Connection`] is handed the payloads of messages 80 to 100 and a [`PacketSink`](lh_wire::PacketSink) for what
//! it wants to say; what happened comes out of [`Connection::poll_event`]. The order of calls: `handle` one
//! message, then `poll_event` until it returns `None`, acting on each event; then the next message.
//!
//! Decisions that shaped this crate:
//! * It owns no data. What arrives leaves at once as a slice of the packet it came in; what is sent is written
//!   straight into its packet. The only memory a peer can fill is the window it was granted, and that memory is
//!   the owner's, who gives the credit back with [`Connection::consumed`] when its sink has taken the bytes.
//! * Who may open what is somebody else's business: opens and requests are surfaced, the owner answers.
//! * Closing is two half-states per channel (what we said, what the peer said); messages change them, and a
//!   channel's number is free again only after both CLOSEs have crossed and the owner has seen
//!   [`Event::Closed`].
//! * The receive window is a policy object ([`WindowPolicy`], `window.rs`) with 64-bit accounting: it starts at
//!   the stock size and doubles while the window is what the peer waits for.

mod channel;
mod config;
mod connection;
mod error;
mod event;
mod first;
mod growth;
mod peer;
mod relay;
mod standing;
mod totals;
mod window;

pub use config::{ChannelOptions, Config, WindowPolicy};
pub use connection::Connection;
pub use error::{ConnectionError, OpenError};
pub use event::{ChannelId, Event};
pub use relay::HandedOver;
pub use totals::Totals;
