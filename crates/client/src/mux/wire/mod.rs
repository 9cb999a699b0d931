//! The messages of OpenSSH's multiplexing protocol, version 4 (PROTOCOL.mux). Each is framed as a string: its
//! length first.

mod forward;
mod hello;
mod numbers;
mod reply;
mod request;

pub use forward::Kind;
pub use hello::{VERSION, hello, master_hello, read_hello};
pub use reply::{MasterMessage, Reply};
pub use request::{NewSession, Request};

/// Longest message, bytes; its longest part is a session's environment.
pub const MESSAGE_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests;
