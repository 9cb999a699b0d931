//! Copies over SSH connections of this process: the common part of `lhscp` and `lhsftp`.
//!
//! `lh_transfer` decides which requests to send to a server, `lh_client` makes connections. Here a
//! [`Connection`] is made and marked as bulk, and a [`Job`](lh_transfer::Job) gets its channels on it. The
//! [`Connector`] makes additional connections if the user requests them (`-j`), or if one connection limits
//! the copy.

mod additional;
mod connection;
mod leave;
mod load;
mod piped;
pub mod place;
mod pump_until_closed;
mod shared;

pub use additional::Connector;
pub use connection::{Connection, Copying, NoConnection, VERSION_TIMEOUT};
pub use leave::take_leave;
pub use load::Measure;
pub use piped::SubsystemError;
pub use pump_until_closed::PumpUntilClosed;
