//! Copies over SSH connections of this process: what `lhscp` and `lhsftp` have in common.
//!
//! `lh_transfer` knows what to ask a server for, `lh_client` how to reach one. Here a [`Connection`] is made and marked as bulk, a
//! [`Job`](lh_transfer::Job) gets its channels on it, and the [`Connector`] makes additional connections
//! where the user asks for them (`-j`) or where one is found to be what holds the copy up.

mod additional;
mod connection;
mod load;
mod piped;
pub mod place;
mod pump_until_closed;

pub use additional::Connector;
pub use connection::{Connection, Copying, NoConnection};
pub use load::Measure;
pub use piped::SubsystemError;
pub use pump_until_closed::PumpUntilClosed;
